"""The part of AgentContext that runs things: tasks, controls, waiting for the record."""

from __future__ import annotations

import asyncio
import subprocess
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, cast

from hub.agent.config import AgentConfig, UserMessage
from hub.agent.current import run_of
from hub.agent.errors import RunStopped
from hub.agent.log import Log
from hub.agent.message_queue import MessageQueue
from hub.agent.processes import Processes
from hub.agent.tasks import DeferredTask, Ended, running_task, wait_for
from hub.agent.waiting import refuse_on_loop, until, wait_until
from hub.agent.writer import Writer
from hub.core.errors import HubError, InvalidRequest
from hub.core.requests import Control, RunOpen
from hub.core.runs import ACTIVE, active_run

if TYPE_CHECKING:
    from hub.agent.context import AgentContext


class Running:
    """Tasks of a context, and what people ask of its run."""

    id: str
    config: AgentConfig
    writer: Writer
    log: Log
    message_queue: MessageQueue

    def _set_up_running(self) -> None:
        self.task: DeferredTask | None = None
        """The newest task that has, or had, a run of its own."""
        self.steps = 0
        """Grows whenever its code comes to a checkpoint or a flush, and when it goes on from there."""
        self._tasks: set[DeferredTask] = set()
        self._tasks_lock = threading.Lock()

    # tasks

    def run_task(self, func: Callable[..., Any] | Coroutine[Any, Any, Any], *args: Any, **kwargs: Any) -> DeferredTask:
        """Run a function or coroutine function in a thread of its own, as the context's run. Called from code that is part
        of the active run, the task shares that run; an exception in it ends the run as well.

        Raises InvalidRequest while another run is active here; after ``kill_process`` the new one waits for its end.
        """
        work: Callable[[], Any] = partial(func, *args, **kwargs) if callable(func) else lambda: func
        context = cast("AgentContext", self)
        run = run_of(self.id)
        with self.writer.lock:
            active = active_run(self.writer.read().document)
        with self._tasks_lock:
            if run is not None and active is not None and active["id"] == run.id:
                task = DeferredTask(context, work, run=run, shared=True)
                self._tasks.add(task)
                task.start(None, None)
                return task
            before = self.task if self.task is not None and self.task.is_alive() else None
            if before is not None and not before.stopping:
                raise InvalidRequest("a task runs in this context already; kill_process() ends it")
            opening = None if before is not None else self.writer.ask(RunOpen(context=self.id))
            task = self.task = DeferredTask(context, work)
            self._tasks.add(task)
            task.start(opening, before)
        return task

    def popen(self, args: Sequence[str] | str, **options: Any) -> subprocess.Popen[Any]:
        """``subprocess.Popen``, of a process that ends with the task which starts it: when that is stopped, fails or returns, or
        this process is killed. So do its descendants. Raises InvalidRequest outside of a task, RunStopped in one that was
        stopped."""
        return self._processes().popen(args, options)

    async def create_subprocess_exec(self, *args: str, **options: Any) -> asyncio.subprocess.Process:
        """``asyncio.create_subprocess_exec``, of a process that ends as those of ``popen`` do. Raises the same."""
        return await self._processes().exec(args, options)

    def _processes(self) -> Processes:
        task = running_task()
        if task is None or task.context is not self:
            task = self.task
        if task is None or not task.is_alive():
            raise InvalidRequest("a process is started by a handler, or by what run_task runs: it ends with that")
        return task.processes

    def take_run(self, task: DeferredTask, after: DeferredTask | None) -> None:
        """For agents that are served: a task has the run which the hub handed over."""
        with self._tasks_lock:
            self.task = task
            self._tasks.add(task)
            task.start(None, after)

    def is_running(self) -> bool:
        """Whether a run is active in the context, here or anywhere else."""
        with self.writer.lock:
            if self.writer.read().document["running"] and self.writer.closed_by is None:
                return True
        return self.task is not None and self.task.is_alive()

    def kill_process(self) -> Ended:
        """End the context's run, and nothing else. A coroutine is cancelled and its clean-up waited for.

        A thread waits for the end, at most for the grace; on an event loop await what this returns.
        """
        with suppress(HubError), self.writer.lock:  # a context that was closed has no run that could be stopped
            if active_run(self.writer.read().document) is not None:
                self._control("stop")
        return wait_for(self._stop_tasks())

    def task_ended(self, task: DeferredTask) -> None:
        """For tasks: one has ended."""
        with self._tasks_lock:
            self._tasks.discard(task)

    def _stop_tasks(self) -> list[DeferredTask]:
        with self._tasks_lock:
            tasks = list(self._tasks)
        for task in tasks:
            task.ask_to_stop()
        return tasks

    # controls

    def reset(self) -> Ended:
        """End the run and empty the log. Kept are id, name, data, output data, state, session context and queue."""
        with self._tasks_lock:
            tasks = list(self._tasks)
        self.log.drop_tails()
        self.writer.submit(Control(context=self.id, action="reset"))
        for task in tasks:
            task.ask_to_stop()
        return wait_for(tasks)

    def nudge(self) -> None:
        """Get going again: not paused, and a message whose run ended early is given to the agent once more."""
        self._control("nudge")

    def pause(self) -> None:
        """Let the agent wait at its next checkpoint."""
        self._control("pause")

    def resume(self) -> None:
        """Let the agent go on."""
        self._control("resume")

    @property
    def paused(self) -> bool:
        """Whether the agent is to wait at its checkpoints."""
        with self.writer.lock:
            return bool(self.writer.read().document["paused"])

    @paused.setter
    def paused(self, paused: bool) -> None:
        self._control("pause" if paused else "resume")

    def communicate(self, message: UserMessage | str) -> str:
        """Say something to the agent: it waits in the queue until the agent takes it. Returns the message's id."""
        if isinstance(message, str):
            message = UserMessage(message)
        return self.message_queue.add(message.message, message.attachments)

    def _control(self, action: Literal["stop", "pause", "resume", "nudge"]) -> None:
        self.writer.submit(Control(context=self.id, action=action))

    # waiting

    async def flush(self) -> None:
        """Wait until the record has everything written so far. Raises the first write that was refused since last time."""
        with self._step():
            self.log.show()
            await asyncio.wrap_future(self.writer.flushed())

    def wait_flush(self, timeout: float | None = None) -> None:
        """``flush`` for a thread that runs no event loop. Raises TimeoutError after ``timeout`` seconds, InvalidRequest on an
        event loop."""
        refuse_on_loop("wait_flush()", "flush()")
        with self._step():
            self.log.show()
            self.writer.flushed().result(timeout)

    async def checkpoint(self) -> None:
        """A place where a run may be stopped or paused: waits while the context is paused, or while the hub is far behind with
        what was written. Raises RunStopped once somebody asked for a stop or the run has ended, and whatever was refused of
        earlier writes."""
        await asyncio.sleep(0)
        if self._may_go_on():  # as most times: it is called for each token of a stream
            self.steps += 1
            return
        with self._step():
            await until(self.writer, self._may_go_on)

    def wait_checkpoint(self) -> None:
        """``checkpoint`` for plain functions. Raises InvalidRequest on an event loop."""
        refuse_on_loop("wait_checkpoint()", "checkpoint()")
        with self._step():
            wait_until(self.writer, self._may_go_on)

    @contextmanager
    def _step(self) -> Iterator[None]:
        self.steps += 1
        try:
            yield
        finally:
            self.steps += 1

    def _may_go_on(self) -> bool:
        return not self._check_stop() and not self.writer.is_behind

    def _check_stop(self) -> bool:
        """Whether the context is paused. Raises RunStopped, and whatever was refused of earlier writes."""
        self.writer.raise_failures()
        self.writer.check_open()
        task = running_task()
        with self.writer.lock:
            document = self.writer.read_document()
            run, paused = document["run"], document["paused"]
        mine = run_of(self.id)
        if mine is not None and (run is None or run["id"] != mine.id or run["status"] not in ACTIVE):
            raise RunStopped("the run has ended")
        if (run is not None and run["status"] == "stopping") or (task is not None and task.stopping):
            raise RunStopped("the run was asked to stop")
        return bool(paused)
