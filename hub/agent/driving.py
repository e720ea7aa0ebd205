"""How a task's coroutine runs: on an event loop of its own, or on that of the process, where handlers of messages run."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Awaitable
from concurrent.futures import Future
from contextvars import ContextVar
from typing import Any, ClassVar, Final
from weakref import WeakKeyDictionary, WeakSet

UNTAKEN_SECONDS: Final = 0.25
"""How long the exception of a task may wait for somebody to take it. asyncio itself tells only once nobody could any more,
which is never for a task that is kept somewhere."""

_driver: ContextVar[Driver | None] = ContextVar("hub_driver", default=None)


class _Task(asyncio.Task[Any]):
    """A task that knows whether somebody waits for it, or asked to be told of its end."""

    watched = False

    def add_done_callback(self, fn: Any, /, *, context: contextvars.Context | None = None) -> None:
        self.watched = True
        super().add_done_callback(fn, context=context)

    def when_done(self, fn: Any) -> None:
        """``add_done_callback`` for who does not count."""
        super().add_done_callback(fn)


class Driver:
    """Runs one coroutine. What it left to itself and raised goes into ``failure``, and ends it."""

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self.loop = loop
        """The loop to run on; None makes one."""
        self.failure: Exception | None = None
        self.began = False
        """Whether there was a coroutine at all."""
        self._lock = threading.Lock()
        self._cancelled = False
        self._running: tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]] | None = None
        self._children: WeakSet[asyncio.Task[Any]] = WeakSet()

    def run(self, awaitable: Awaitable[Any]) -> Any:
        """Run it to its end, in this thread or from it. Raises what it raises."""
        self.began = True
        return self._on_own_loop(awaitable) if self.loop is None else self._on(self.loop, awaitable)

    def cancel(self) -> None:
        """Cancel it, from any thread; once only, so that its clean-up is not cancelled."""
        with self._lock:
            first, self._cancelled = not self._cancelled, True
            if first and self._running is not None:
                loop, main = self._running
                loop.call_soon_threadsafe(main.cancel)

    def failed(self, error: object) -> None:
        """Something that the coroutine started raised, and nobody took it."""
        if isinstance(error, Exception) and self.failure is None and not self._cancelled:
            self.failure = error
            self.cancel()

    def adopt(self, task: asyncio.Task[Any]) -> None:
        """The coroutine started a task."""
        self._children.add(task)
        if isinstance(task, _Task):
            task.when_done(self._child_ended)

    def _child_ended(self, task: _Task) -> None:
        if not task.watched and _is_untaken(task):
            task.get_loop().call_later(UNTAKEN_SECONDS, self._look_whether_taken, task)

    def _look_whether_taken(self, task: _Task) -> None:
        if not task.watched and _is_untaken(task):
            self.failed(task.exception())

    def _set_running(self, loop: asyncio.AbstractEventLoop, main: asyncio.Task[Any]) -> None:
        with self._lock:
            self._running = loop, main
            if self._cancelled:
                main.cancel()

    def _on_own_loop(self, awaitable: Awaitable[Any]) -> Any:
        with asyncio.Runner() as runner:
            loop = runner.get_loop()
            loop.set_exception_handler(self._unhandled)
            main = loop.create_task(awaitable if inspect.iscoroutine(awaitable) else _as_coroutine(awaitable))
            loop.set_task_factory(self._make)
            self._set_running(loop, main)
            try:
                return loop.run_until_complete(main)
            finally:
                with self._lock:
                    self._running = None

    def _make(self, loop: asyncio.AbstractEventLoop, coro: Any, **options: Any) -> Any:
        task = _Task(coro, loop=loop, **options)
        self.adopt(task)
        return task

    def _unhandled(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        loop.default_exception_handler(context)
        self.failed(context.get("exception"))

    def _on(self, loop: asyncio.AbstractEventLoop, awaitable: Awaitable[Any]) -> Any:
        outcome: Future[Any] = Future()
        _driver.set(self)

        def begin() -> None:
            main = loop.create_task(self._with_children(awaitable))
            self._children.discard(main)
            self._set_running(loop, main)
            main.add_done_callback(done)

        def done(main: asyncio.Task[Any]) -> None:
            with self._lock:
                self._running = None
            if inspect.iscoroutine(awaitable):
                awaitable.close()  # it may have been cancelled before it began
            error = asyncio.CancelledError() if main.cancelled() else main.exception()
            if error is not None:
                outcome.set_exception(error)
            else:
                outcome.set_result(main.result())

        loop.call_soon_threadsafe(begin)
        return outcome.result()

    async def _with_children(self, awaitable: Awaitable[Any]) -> Any:
        """If it does not end well, the tasks that it started and that go on are ended with it."""
        try:
            return await awaitable
        except BaseException:
            children = [task for task in self._children if not task.done()]
            for task in children:
                task.cancel()
            await asyncio.gather(*children, return_exceptions=True)
            raise


class LooseTasks:
    """Keeps track, on the process's loop, of tasks that handlers start: a stop ends them, and what they raise is not lost."""

    _on_loops: ClassVar[WeakKeyDictionary[asyncio.AbstractEventLoop, LooseTasks]] = WeakKeyDictionary()

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._users = 0
        self._factory = loop.get_task_factory()
        self._handler = loop.get_exception_handler()
        self._owners: WeakKeyDictionary[Any, Driver] = WeakKeyDictionary()

    @classmethod
    def on(cls, loop: asyncio.AbstractEventLoop) -> LooseTasks:
        """Begin, or go on. ``off`` ends it when it was called as often."""
        loose = cls._on_loops.get(loop)
        if loose is None:
            loose = cls._on_loops[loop] = cls(loop)
            loop.set_task_factory(loose._make)
            loop.set_exception_handler(loose._unhandled)
        loose._users += 1
        return loose

    def off(self) -> None:
        """End."""
        self._users -= 1
        if self._users == 0:
            del self._on_loops[self._loop]
            self._loop.set_task_factory(self._factory)
            self._loop.set_exception_handler(self._handler)

    def _make(self, loop: asyncio.AbstractEventLoop, coro: Any, **options: Any) -> Any:
        context: contextvars.Context | None = options.get("context")
        driver = _driver.get() if context is None else context.get(_driver)
        owned = driver is not None and driver.loop is loop
        if self._factory is not None:
            task: Any = self._factory(loop, coro, **options)
        else:
            task = (_Task if owned else asyncio.Task)(coro, loop=loop, **options)
        if owned:
            assert driver is not None
            driver.adopt(task)
            self._owners[task] = driver
        return task

    def _unhandled(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if self._handler is not None:
            self._handler(loop, context)
        else:
            loop.default_exception_handler(context)
        task = context.get("task") or context.get("future")
        driver = self._owners.get(task) if task is not None else _driver_of(context.get("handle"))
        if driver is not None and driver.loop is loop:
            driver.failed(context.get("exception"))


def _is_untaken(task: asyncio.Task[Any]) -> bool:
    """Whether a task that is done raised, and nobody has asked it for that yet."""
    untaken: bool = task._log_traceback
    return untaken


def _driver_of(handle: Any) -> Driver | None:
    """Whose callback failed, by the context that it runs in; uvloop, and asyncio since 3.12, call the handler in it."""
    if handle is None:
        return None
    context: contextvars.Context | None = getattr(handle, "_context", None)
    return _driver.get() if context is None else context.get(_driver)


async def _as_coroutine(awaitable: Awaitable[Any]) -> Any:
    return await awaitable
