"""The load: crowds of viewers and the source of changes, in processes of their own."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from scripts.benchmarks.contestants import Server
from scripts.benchmarks.processes import BenchError, Process, python_module

OPEN_SECONDS = 120.0
CONCURRENCY = 64
"""Connections that are being opened at once; below what servers queue by default."""


NAP = 0.0005


class Crowd:
    """Viewers, spread evenly over one or more receiver processes."""

    def __init__(self, scratch: Path, processes: int = 1, *, module: str = "receiver") -> None:
        self.step_fds: list[int] = []
        """Where each process tells that all its viewers have a change."""
        self.processes: list[Process] = []
        self.viewers = [0] * processes
        for index in range(processes):
            told, tells = os.pipe()
            self.step_fds.append(told)
            try:
                name = f"viewers {index}"
                self.processes.append(Process(name, python_module(module, str(tells)), scratch, fds=[tells]))
            finally:
                os.close(tells)

    def cpu(self) -> float:
        """Seconds of CPU of all its processes."""
        return sum(process.cpu() for process in self.processes)

    def open(
        self, way: dict[str, Any], count: int, *, first: int = 0, concurrency: int = CONCURRENCY, strict: bool = True
    ) -> dict[str, float]:
        """Let viewers numbered from ``first`` in. Raises BenchError unless all get in, or not ``strict``."""
        at = first
        for process, share in zip(self.processes, shares(count, len(self.processes)), strict=True):
            most = max(1, concurrency // len(self.processes))
            process.tell("open", **way, first=at, count=share, concurrency=most, seconds=OPEN_SECONDS)
            at += share
        answers = [process.answer(OPEN_SECONDS + 10) for process in self.processes]
        self.viewers = [int(answer["ready"]) for answer in answers]
        lost = [answer for answer in answers if answer["lost"]]
        if strict and (lost or sum(self.viewers) < count):
            raise BenchError(f"{sum(self.viewers)} of {count} viewers got in: {answers[0]['refusal'] or 'too slow'}")
        return {"ready": sum(self.viewers), "seconds": max(answer["seconds"] for answer in answers)}

    def settle(self, calm: float, seconds: float = 15.0) -> None:
        """Wait until nothing has come for ``calm`` seconds."""
        until = time.monotonic() + seconds
        before, since = -1, time.monotonic()
        while time.monotonic() < until and time.monotonic() - since < calm:
            now = sum(process.ask("report")["frames"] for process in self.processes)
            if now != before:
                before, since = now, time.monotonic()
            time.sleep(0.05)

    def reset(self, *, burst: int = 0, every: int = 0, shared: bool = True, nap: float = NAP) -> None:
        """Count from here.

        ``burst``: changes in a step of a lockstep; ``every``: read the time in each so-many-th frame (0: never);
        ``shared``: whether viewers get the same bytes; ``nap``: seconds between two looks at the sockets.
        """
        for process, viewers in zip(self.processes, self.viewers, strict=True):
            process.ask("reset", step=viewers * burst, every=every, shared=shared, nap=nap)

    def wait(self, frames_each: int, seconds: float) -> int:
        """Wait until every viewer can have got so many frames; the time of the last one in microseconds."""
        for process, viewers in zip(self.processes, self.viewers, strict=True):
            process.tell("await", frames=viewers * frames_each, seconds=seconds)
        answers = [process.answer(seconds + 10) for process in self.processes]
        for answer, viewers in zip(answers, self.viewers, strict=True):
            if answer["frames"] < viewers * frames_each:
                raise BenchError(f"viewers got {answer['frames']} of {viewers * frames_each} frames in {seconds:g} s")
        return max(int(answer["at_us"]) for answer in answers)

    def report(self) -> dict[str, Any]:
        """What came since ``reset``. Of several processes' percentiles it has the worst."""
        reports = [process.ask("report") for process in self.processes]
        merged: dict[str, Any] = {}
        for name in ("frames", "bytes", "lost", "ready", "samples"):
            merged[name] = sum(report.get(name, 0) for report in reports)
        for name in ("p50", "p99", "first_quarter", "last_quarter"):
            there = [report[name] for report in reports if name in report]
            merged[name] = max(there) if there else float("nan")
        return merged

    def close_viewers(self) -> None:
        """Close all connections, keep the processes."""
        for process in self.processes:
            process.ask("close")
        self.viewers = [0] * len(self.processes)

    def end(self) -> None:
        for process in self.processes:
            process.end()
        for fd in self.step_fds:
            os.close(fd)
        self.step_fds = []


def start_agent(scratch: Path, server: Server, crowd: Crowd | None = None, *, name: str = "s") -> Process:
    """The source of changes, connected to a server; it waits for a crowd's viewers in lockstep. Its sessions' ids begin
    with ``name``."""
    fds = [] if crowd is None else crowd.step_fds
    agent = Process("agent", python_module("agent", *map(str, fds)), scratch, fds=fds)
    try:
        agent.ask("connect", name=name, **server.source())
    except BaseException:
        agent.end()
        raise
    return agent


def start_author(scratch: Path, server: Server, sessions: int, name: str) -> Process:
    """A process that streams with a library into so many sessions of a server, which it makes; their ids begin with ``name``."""
    author = Process(f"author at {server.name}", python_module("author"), scratch)
    try:
        author.ask("connect", name=name, sessions=sessions, **server.source())
    except BaseException:
        author.end()
        raise
    return author


def shares(count: int, parts: int) -> list[int]:
    """A number split as evenly as can be."""
    return [count // parts + (index < count % parts) for index in range(parts)]
