"""A process that changes sessions: the agent of the hub, or the client that a peer relays for. See ``sources``."""

from __future__ import annotations

import os
import select
import sys
import time
from collections import deque
from typing import Any

from scripts.benchmarks.control import Commands, answer
from scripts.benchmarks.figures import percentile
from scripts.benchmarks.link import Link, LinkError, way_from
from scripts.benchmarks.sources import HubSource, RelaySource, Source, Token, stamp
from scripts.benchmarks.writers import contend

STEP_SECONDS = 10.0
_UNDER_WAY = 4
"""Events that may be unanswered while tokens stream; beyond that what is due waits, and goes together."""
_MOST_TOKENS = 2_000
"""Tokens that go into one event."""
_TICK = 0.001
"""Seconds between two looks at which tokens are due, so that the agent costs little."""


def lockstep(source: Source, fds: list[int], command: dict[str, Any]) -> dict[str, Any]:
    """Change one session again and again, the next time when all viewers have the last change."""
    burst, pad = command["burst"], "x" * command["pad"]
    began = time.monotonic()
    until = began + command["seconds"]
    rounds = 0
    while (now := time.monotonic()) < until and rounds < command.get("most", 1 << 30):
        # Numbered, because the same value again would change nothing.
        source.say(0, [f"{stamp()}-{number:02d}{pad}" for number in range(burst)])
        for fd in fds:
            if not select.select([fd], [], [], STEP_SECONDS)[0]:
                raise LinkError(f"the viewers did not get change {rounds + 1} within {STEP_SECONDS:g} s")
            os.read(fd, 1)
        rounds += 1
        if command.get("pause"):
            time.sleep(max(0.0, command["pause"] - (time.monotonic() - now)))
    return {"rounds": rounds, "seconds": time.monotonic() - began}


def stream(source: Source, command: dict[str, Any]) -> dict[str, Any]:
    """Give each of many sessions so many tokens a second, each stamped with the time at which it was due.

    What is due goes out together while other events are under way; a session has one event under way at most.
    """
    sessions, seconds = command["sessions"], command["seconds"]
    interval = 1.0 / (command["rate"] * sessions)
    began = time.monotonic()
    due, sent, held = 0, 0, 0
    waiting: list[list[str]] = [[] for _ in range(sessions)]
    ready: deque[int] = deque()  # sessions that have tokens and no event under way
    busy = bytearray(sessions)
    under_way: dict[int, list[int]] = {}
    while (now := time.monotonic()) < began + seconds:
        for id in source.answered():
            for session in under_way.pop(id, ()):
                busy[session] = 0
                if waiting[session]:
                    ready.append(session)
        while due < (now - began) / interval:
            session = due % sessions
            if busy[session]:
                held += 1
            elif not waiting[session]:
                ready.append(session)
            waiting[session].append(stamp(int((began + due * interval) * 1e6)) + " word ")
            due += 1
        if ready and len(under_way) < _UNDER_WAY:
            batch: list[Token] = []
            chosen: list[int] = []
            while ready and len(batch) < _MOST_TOKENS:
                session = ready.popleft()
                batch += [(session, text) for text in waiting[session]]
                waiting[session] = []
                chosen.append(session)
            id_ = source.tokens(batch)
            sent += len(batch)
            if id_ is not None:
                under_way[id_] = chosen
                for session in chosen:
                    busy[session] = 1
        select.select([source.link.sock], [], [], _TICK if len(under_way) < _UNDER_WAY else 0.01)
    return {"due": due, "sent": sent, "held": held, "seconds": time.monotonic() - began}


def probe(source: Source, command: dict[str, Any]) -> dict[str, Any]:
    """The time from this process's socket to a viewer's socket in this process, for single changes on an idle server."""
    viewer = Link(way_from(command["viewer"]), binary=False)
    times: list[float] = []
    try:
        viewer.send(f"420{command['viewer']['join']}".encode())
        while not (packet := viewer.packet()).startswith(b"430"):
            pass
        if b'"ok":true' not in packet[:20].replace(b" ", b""):
            raise LinkError(f"refused: {packet[:200]!r}")
        for turn in range(command["count"] + command["warm"]):
            time.sleep(command["pause"])
            viewer.packets()
            text = stamp()
            begin = time.perf_counter()
            source.tokens([(0, text)])
            while text.encode() not in viewer.packet():
                pass
            took = time.perf_counter() - begin
            source.answered()
            if turn >= command["warm"]:
                times.append(took * 1e6)
    finally:
        viewer.close()
    return {"p50": percentile(times, 0.5), "p99": percentile(times, 0.99), "samples": len(times)}


class Agent:
    """Does what the bench asks."""

    def __init__(self, fds: list[int]) -> None:
        self._fds = fds
        self._source: HubSource | RelaySource | None = None

    def run(self) -> None:
        """Serve commands until the bench is gone; answer pings meanwhile."""
        commands = Commands()
        while True:
            sources: list[Any] = [] if self._source is None else [self._source.link.sock]
            ready = select.select([commands.fd, *sources], [], [])[0]
            if commands.fd in ready:
                for command in commands.read():
                    try:
                        answer(**self._do(command))
                    except (LinkError, OSError) as error:
                        answer(error=str(error))
            elif self._source is not None:
                try:
                    self._source.link.packets()
                except (LinkError, OSError):
                    self._source = None  # the server ended

    def _do(self, command: dict[str, Any]) -> dict[str, Any]:
        if command["command"] == "connect":
            hub = command["kind"] == "hub"
            link = Link(way_from(command), binary=hub)
            kind = HubSource if hub else RelaySource
            self._source = kind(link, command["name"])
            return {}
        source = self._source
        if source is None:
            raise LinkError("there is no connection")
        match command["command"]:
            case "prepare":
                source.prepare(command["sessions"], command.get("first", 0))
            case "entries":
                source.begin_entries(command["sessions"], command["name"])
            case "lockstep":
                return lockstep(source, self._fds if command.get("steps", True) else [], command)
            case "stream":
                return stream(source, command)
            case "probe":
                return probe(source, command)
            case "everybody":
                at = time.monotonic_ns() // 1000
                source.everybody(command["text"])
                return {"at_us": at}
            case "mark":
                source.mark(command["sessions"], command["text"])
            case _ if isinstance(source, HubSource):
                return self._do_hub(source, command)
        return {}

    def _do_hub(self, source: HubSource, command: dict[str, Any]) -> dict[str, Any]:
        match command["command"]:
            case "fill":
                source.fill(0, command["keys"], command["size"])
            case "logs":
                for session in range(command["first"], command["last"]):
                    source.write_log(session, command["entries"])
            case "keys":
                began = time.monotonic()
                for turn in range(command["count"]):
                    source.set_key(0, "k0", stamp() + "y" * (command["size"] - 18))
                    time.sleep(max(0.0, began + (turn + 1) * command["pause"] - time.monotonic()))
                return {"seconds": time.monotonic() - began}
            case "recorded":
                changes, entries, characters = zip(*map(source.recorded, range(command["sessions"])), strict=True)
                return {"changes": sum(changes), "entries": sum(entries), "characters": sum(characters)}
            case "snapshot":
                return {"bytes": source.snapshot_bytes(0)}
            case "appends":
                for turn in range(command["count"]):
                    source.append_one(0, f"word {turn:06d} ")
            case "contend":
                return contend(command)
            case other:
                raise LinkError(f"there is no command {other}")
        return {}


if __name__ == "__main__":
    Agent([int(fd) for fd in sys.argv[1:]]).run()
