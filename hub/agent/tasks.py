"""Work of a context: each task in a thread of its own, so that one that blocks delays nobody else.

A coroutine gets an event loop of its own in that thread. A task is part of a run: it opens one and ends it, or shares that of
the task which started it. Its writes name the run, so that they are refused once it has ended.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import logging
import threading
from collections.abc import Awaitable, Callable, Generator
from concurrent.futures import Future
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, Literal

from hub.agent.current import CONTEXT_ID, set_context_data, set_run
from hub.agent.driving import Driver
from hub.agent.errors import RunStopped
from hub.agent.processes import Processes
from hub.agent.secret import SECRETS
from hub.agent.waiting import refuse_on_loop, runs_a_loop
from hub.core.errors import HubError, Removed, RunLost
from hub.core.requests import AnyOperation, LogAdd, RunOpen, RunRef, RunSet
from hub.core.runs import ACTIVE
from hub.core.values import clean_text

if TYPE_CHECKING:
    from hub.agent.context import AgentContext

_log = logging.getLogger(__name__)

_task: ContextVar[DeferredTask | None] = ContextVar("hub_task", default=None)

COROUTINE_GRACE: Final = 4
IGNORED: Final = "it did not end when it was asked to; what it still writes is refused"


def running_task() -> DeferredTask | None:
    """The task that this code is part of, or None."""
    return _task.get()


class Ended:
    """What can be awaited until tasks have ended (or were given up)."""

    def __init__(self, tasks: list[DeferredTask]) -> None:
        self._tasks = tasks

    def __await__(self) -> Generator[Any, None, None]:
        return self._wait().__await__()

    async def _wait(self) -> None:
        for task in self._tasks:
            await asyncio.shield(asyncio.wrap_future(task.ended))

    def wait(self, timeout: float | None = None) -> bool:
        """Wait in a thread, at most ``timeout`` seconds for each. Returns whether all have ended. Raises InvalidRequest on an
        event loop."""
        refuse_on_loop("wait()", "what kill() or kill_process() returned")
        for task in self._tasks:
            try:
                task.ended.result(timeout)
            except TimeoutError:
                return False
        return True


class DeferredTask:
    """A function or coroutine that runs for a context. Made by ``AgentContext.run_task``.

    Without a ``run`` it opens one; ``shared`` says that the run is ended by somebody else. ``loop`` is where a coroutine
    runs, if not on a loop of its own.
    """

    def __init__(
        self,
        context: AgentContext,
        work: Callable[[], Any],
        *,
        run: RunRef | None = None,
        shared: bool = False,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self.context = context
        self.ended: Future[None] = Future()
        """Done when the task has ended, or was given up."""
        self.shared = shared
        """Whether the run is that of the task which started this one."""
        self._work = work
        self._run = run
        self._opening: Future[dict[str, Any]] | None = None
        self._result: Future[Any] = Future()
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._claimed = False  # somebody says how it ended
        self._driver = Driver(loop)
        self.processes = Processes()
        """The child processes that it started."""
        self._stopped_as: Literal["stopped", "interrupted"] = "stopped"
        self._timer: threading.Timer | None = None
        self._unwatch: Callable[[], None] = lambda: None

    # for authors

    def is_alive(self) -> bool:
        """Whether it has not ended yet. One that was given up counts as ended."""
        return not self._result.done()

    @property
    def stopping(self) -> bool:
        """Whether it was asked to end. A plain function looks at this, or calls ``wait_checkpoint``, now and then."""
        return self._stop.is_set()

    @property
    def stopped_as(self) -> Literal["stopped", "interrupted"]:
        """How its run ends once it is ``stopping``: somebody stopped it, or this process ends."""
        return self._stopped_as

    @property
    def ending(self) -> bool:
        """Whether it has come to its end, or was given up; what is left is to say so."""
        return self._claimed

    def kill(self) -> Ended:
        """Ask it to end: a coroutine is cancelled, a plain function finds out at its next checkpoint or write.

        A thread waits until it has ended, at most for the context's grace; a thread that runs an event loop goes on and may
        await what this returns. One that ignores it is reported in the log, and its writes are refused from then on.
        """
        self.ask_to_stop()
        return wait_for([self])

    async def result(self, timeout: float | None = None) -> Any:
        """What the function returned. Raises what it raised, RunStopped if it was ended, TimeoutError after ``timeout``
        seconds."""
        return await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(self._result)), timeout)

    def result_sync(self, timeout: float | None = None) -> Any:
        """``result`` for a thread that runs no event loop. Raises InvalidRequest on one that does."""
        refuse_on_loop("result_sync()", "result()")
        return self._result.result(timeout)

    # its life

    def start(self, opening: Future[dict[str, Any]] | None, after: DeferredTask | None) -> None:
        """Begin, with a copy of the caller's contextvars. ``after``: a task that has to end first."""
        self._opening = opening
        copied = contextvars.copy_context()
        name = f"task {self.context.id}"
        threading.Thread(target=copied.run, args=(self._live, after), name=name, daemon=True).start()

    def ask_to_stop(self, status: Literal["stopped", "interrupted"] = "stopped") -> None:
        """Ask it to end as ``status``, and wait for nothing."""
        with self._lock:
            if self._stop.is_set():
                return
            self._stopped_as = status
            self._stop.set()
            if not self._claimed:
                self._timer = threading.Timer(self.grace, self._give_up)
                self._timer.daemon = True
                self._timer.start()
        self._driver.cancel()
        self.processes.end_soon(self.context.config.stop_grace)
        self.context.writer.poke()

    @property
    def grace(self) -> float:
        """Seconds that it has to end when it is asked to: a coroutine, which was cancelled and cleans up, has more."""
        return self.context.config.stop_grace * (COROUTINE_GRACE if self._driver.began else 1)

    def _live(self, after: DeferredTask | None) -> None:
        _task.set(self)
        set_context_data(CONTEXT_ID, self.context.id)
        value: Any = None
        failure: BaseException | None = None
        try:
            self._begin(after)
            value = self._call()
        except BaseException as error:
            failure = error
        self._unwatch()
        if self._driver.failure is not None and not isinstance(failure, Exception):
            failure = self._driver.failure
        self._end(value, failure)

    def _begin(self, after: DeferredTask | None) -> None:
        if after is not None:
            after.ended.result()
        if self._run is None:
            opening = self._opening or self.context.writer.ask(RunOpen(context=self.context.id))
            run = opening.result()["run"]
            self._run = RunRef(run["id"], run["fence"])
            self.context.writer.held_run = self._run
        set_run(self.context.id, self._run)
        self._unwatch = self.context.writer.watch(self._look)
        self._look()
        if self._stop.is_set():
            raise RunStopped("the task was stopped before it began")

    def _look(self) -> None:
        """End with the run: it was asked to stop, or is over."""
        run = self.context.writer.view.state.document.get("run")
        assert self._run is not None
        goes_on = run is not None and run["id"] == self._run.id and run["status"] in ACTIVE - {"stopping"}
        if not goes_on and not self._stop.is_set():
            self.ask_to_stop()

    def _call(self) -> Any:
        result = self._work()
        if not inspect.isawaitable(result):
            return result
        try:
            return self._driver.run(self._with_processes(result))
        finally:
            if inspect.iscoroutine(result):
                result.close()  # one that was stopped before it began would be reported as forgotten

    async def _with_processes(self, work: Awaitable[Any]) -> Any:
        """A coroutine, and the end of the processes that it started, on its event loop."""
        try:
            return await work
        finally:
            await self.processes.leave(self.context.config.stop_grace)

    # its end

    def _claim(self) -> bool:
        with self._lock:
            claimed, self._claimed = self._claimed, True
            if self._timer is not None:
                self._timer.cancel()
        return not claimed

    def _end(self, value: Any, failure: BaseException | None) -> None:
        claimed = self._claim()
        if not self._driver.began:  # else the coroutine has ended them
            self.processes.end(self.context.config.stop_grace)
        if not claimed:
            if self._run is not None and not self.shared:
                end_run(self.context, self._run, self._stopped_as)  # perhaps it began only after it had been given up
            return
        ended_by_others = isinstance(failure, (RunStopped, asyncio.CancelledError, RunLost, Removed))
        if self._run is None:  # it never began
            pass
        elif failure is not None and not ended_by_others:
            _log.error("context %s: a task failed", self.context.id, exc_info=failure)
            end_run(self.context, self._run, "failed", failure=failure)
        elif not self.shared:
            stopped = ended_by_others or self._stop.is_set()
            end_run(self.context, self._run, self._stopped_as if stopped else "finished")
        self._tell(value, _told(failure))

    def _give_up(self) -> None:
        if not self._claim():
            return
        _log.warning("context %s: a task was stopped, but %s", self.context.id, IGNORED)
        self.processes.end(0)
        if self._run is not None:
            end_run(self.context, self._run, self._stopped_as, note=f"A task was stopped, but {IGNORED}.")
        self._tell(None, RunStopped(f"the task was stopped, but {IGNORED}"))

    def _tell(self, value: Any, failure: BaseException | None) -> None:
        self.context.task_ended(self)
        if failure is None:
            self._result.set_result(value)
        else:
            self._result.set_exception(failure)
        self.ended.set_result(None)


def wait_for(tasks: list[DeferredTask]) -> Ended:
    """Wait until tasks have ended; on an event loop, or in one of the tasks, only return what can be awaited."""
    ended = Ended(tasks)
    if not runs_a_loop() and running_task() not in tasks:
        ended.wait(max((task.grace for task in tasks), default=0) + 1)
    return ended


def end_run(
    context: AgentContext,
    run: RunRef,
    status: Literal["finished", "failed", "stopped", "interrupted"],
    *,
    failure: BaseException | None = None,
    note: str | None = None,
) -> None:
    """Say in the context how a run ended, with an entry for a failure. One that had ended already stays as it ended."""
    operations: list[AnyOperation] = []
    text = None
    if failure is not None:
        text = describe(failure)
        kind = type(failure).__name__
        operations.append(LogAdd(type="error", heading=text.partition("\n")[0], content=text, kvps={"error": kind}))
    elif note is not None:
        text = note
        operations.append(LogAdd(type="warning", heading="Task did not stop", content=note))
    operations.append(RunSet(status=status, error=text))
    try:
        context.log.release(run)
        context.writer.apply(operations, 500, run=run)
    except HubError as error:
        _log.debug("context %s: run %s had ended: %s", context.id, run.id, error.message)
    if context.writer.held_run == run:
        context.writer.held_run = None


def describe(failure: BaseException) -> str:
    """An exception in words, with secrets masked."""
    text = f"{type(failure).__name__}: {failure}" if str(failure) else type(failure).__name__
    return SECRETS.mask(clean_text(text))


def _told(failure: BaseException | None) -> BaseException | None:
    if isinstance(failure, asyncio.CancelledError):  # whoever waits was not cancelled
        return RunStopped("the task was stopped")
    return failure
