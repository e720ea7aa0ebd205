"""The part of AgentContext that asks people, and waits for their answer."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import msgspec

from hub.agent.current import run_of
from hub.agent.errors import NoAnswer
from hub.agent.running import Running
from hub.agent.secret import SECRETS
from hub.agent.waiting import refuse_on_loop, until, wait_until
from hub.core.operations import AskClose, AskOpen
from hub.core.pointer import own
from hub.core.runs import active_run
from hub.core.times import iso, seconds
from hub.core.values import check

_encode = msgspec.json.Encoder(order="deterministic").encode


class Asking(Running):
    """Questions to the people of a session."""

    def _set_up_asking(self) -> None:
        self._asked: Counter[tuple[str, bytes]] = Counter()  # run and question, how often it was asked

    async def ask(self, question: str, options: Sequence[Any] | None = None, timeout: float | None = None) -> Any:
        """Ask the people of the session. Returns the first answer: one of ``options`` if there are any, else what somebody
        wrote. Every open page shows the question; the run waits meanwhile.

        The question outlives the hub and this process: another attempt of the run that asks the same again goes on
        waiting for the answer, or finds it. Raises NoAnswer after ``timeout`` seconds, RunStopped, and what refuses the
        question.
        """
        id = self._open(question, options, timeout)
        with self._step():
            try:
                async with asyncio.timeout(self._left(id)):
                    await until(self.writer, lambda: self._is_done(id))
            except TimeoutError:
                self._expire(id)
                await asyncio.wrap_future(self.writer.flushed())
            return self._answer(id)

    def wait_ask(self, question: str, options: Sequence[Any] | None = None, timeout: float | None = None) -> Any:
        """``ask`` for plain functions. Raises InvalidRequest on an event loop."""
        refuse_on_loop("wait_ask()", "ask()")
        id = self._open(question, options, timeout)
        with self._step():
            if not wait_until(self.writer, lambda: self._is_done(id), self._left(id)):
                self._expire(id)
                self.writer.flushed().result()
            return self._answer(id)

    def _open(self, question: str, options: Sequence[Any] | None, timeout: float | None) -> str:
        """Ask, under an id that another attempt of the run makes as well."""
        given: list[Any] | None = None if options is None else check(list(options))
        text = SECRETS.mask(question)
        expires_at = None if timeout is None else iso(time.time() + timeout)
        with self.writer.lock:
            run = run_of(self.id)
            active = active_run(self.writer.read().document)
            messages = active["messages"] if active is not None and run is not None and active["id"] == run.id else []
            about = messages[0]["id"] if messages else (run.id if run is not None else self.writer.name)
            what = _encode([text, given])
            asked = (run.id if run is not None else "", what)
            self._asked[asked] += 1
            id = blake2b(f"{about}\0{self._asked[asked]}\0".encode() + what, digest_size=8).hexdigest()
            self.log.show()
            self.writer.apply([AskOpen(id, text, given, expires_at)], len(what) + 200)
        return id

    def _ask(self, id: str) -> dict[str, Any] | None:
        with self.writer.lock:
            ask: dict[str, Any] | None = self.writer.read().document["asks"].get(id)
            return ask

    def _left(self, id: str) -> float | None:
        """Seconds until nobody may answer any more."""
        ask = self._ask(id)
        if ask is None or ask["expires_at"] is None:
            return None
        return max(0.0, seconds(ask["expires_at"]) - time.time())

    def _is_done(self, id: str) -> bool:
        ask = self._ask(id)
        if ask is not None and ask["status"] == "answered":
            return True
        self._check_stop()
        return ask is None or ask["status"] != "open"

    def _expire(self, id: str) -> None:
        self.writer.apply([AskClose(id, "expired")], 100)

    def _answer(self, id: str) -> Any:
        ask = self._ask(id)
        if ask is None or ask["status"] != "answered":
            status = ask["status"] if ask is not None else "withdrawn"
            raise NoAnswer(f"nobody answered: the question is {status}")
        return own(ask["value"])
