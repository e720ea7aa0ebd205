"""An agent process that streams, and may be killed at any moment: ``python -m tests.trials.streaming_agent URL FILE``.

It serves the agent ``streams``. A message is a number: so many tokens it is answered with, fifty a second. What was begun,
confirmed and finished is noted in the file, one ``Note`` a line, before anything else is done: what is noted there must be
kept. The token is in HUB_TOKEN. It ends with its standard input.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Final, Self

import hub
from hub import AgentContext, UserMessage
from tests.support import ROOT, SECONDS, environment
from tests.trials.handled import ANSWER, ATTEMPT, Note, token

AGENT: Final = "streams"
CAPACITY: Final = 200
"""Runs at a time: one process can have all of them while the other is away."""
ATTEMPTS: Final = 1_000
"""Times that a message may be given to it: more than anything can be killed."""
RATE: Final = 50
"""Tokens a second of each run."""
FLUSH: Final = 20
"""Tokens after which they are confirmed."""
LATE: Final = 1.0
"""Seconds of tokens that are caught up at most after something held the run up."""


class Notes:
    """What happened, in a file that outlives SIGKILL: what was given to the system once is in it."""

    def __init__(self, path: str) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def add(self, note: Note) -> None:
        os.write(self._fd, json.dumps(note).encode() + b"\n")


async def answer(ctx: AgentContext, message: UserMessage, notes: Notes) -> None:
    """Stream the answer to a message, from where an earlier attempt was broken off."""
    began, attempt = time.monotonic(), message.attempt
    ctx.log.log("info", "Attempt", str(attempt), id=f"{ATTEMPT}/{message.id}/{attempt}", update_progress="none")
    id = f"{ANSWER}/{message.id}"
    entry = ctx.log.get(id) or ctx.log.log("response", id=id)
    first, count = len(entry.content.split()), int(message.message)

    def note(what: str, tokens: int) -> None:
        notes.add(Note(what, ctx.id, message.id, attempt, tokens, round(time.monotonic() - began, 3)))

    note("begun", first)
    if "finished" in entry.kvps:
        note("found", first)
        return
    due = began
    for number in range(first, count):
        entry.stream(token(number, attempt))
        if number % FLUSH == FLUSH - 1:
            await ctx.flush()
            note("confirmed", number + 1)
        due = max(due + 1 / RATE, time.monotonic() - LATE)
        await asyncio.sleep(due - time.monotonic())
        await ctx.checkpoint()
    with ctx.batch():
        entry.update(finished=attempt)
        ctx.state.incr(message.id)
    await ctx.flush()
    note("finished", count)


async def main(url: str, path: str) -> None:
    notes = Notes(path)
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    async with hub.connect(url, token=os.environ["HUB_TOKEN"], wait=30) as client:
        agent = client.agent(AGENT, capacity=CAPACITY, attempts=ATTEMPTS)

        @agent.on_message
        async def handle(ctx: AgentContext, message: UserMessage) -> None:
            await answer(ctx, message, notes)

        serving = asyncio.create_task(agent.serve())
        ended = asyncio.create_task(reader.read())
        await asyncio.wait([serving, ended], return_when=asyncio.FIRST_COMPLETED)
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


# ------------------------------------------------------------------------------------------------- for who tests it


class StreamingAgents:
    """Such processes, each of which may be killed and come again, and what all of them noted. Leaving the block ends them."""

    def __init__(self, url: str, token: str, folder: Path, count: int) -> None:
        self.notes: list[Note] = []
        """What was read so far; those of one process are in order."""
        self._url, self._token, self._folder = url, token, folder
        self._read: dict[Path, int] = {}  # each process's file, and how much of it
        self._processes = [self._started() for _ in range(count)]

    def kill(self, place: int) -> None:
        """SIGKILL, in the middle of its runs. It must have lived until then."""
        process = self._processes[place]
        process.kill()
        self._check_end(_end(process), -signal.SIGKILL)

    def start(self, place: int) -> None:
        """Another one takes the place of the one that was killed."""
        self._processes[place] = self._started()

    def read(self) -> list[Note]:
        """Read what was noted since; gives that."""
        new: list[Note] = []
        for path, begin in self._read.items():
            if path.exists():
                with path.open("rb") as file:
                    file.seek(begin)
                    lines = file.read().rpartition(b"\n")[0]  # what comes after it is still being written
                new += [Note(*json.loads(line)) for line in lines.splitlines()]
                self._read[path] = begin + len(lines) + bool(lines)
        self.notes += new
        return new

    def rates(self) -> list[float]:
        """Tokens a second of each attempt that came to the end of its answer."""
        first = {(note.message, note.attempt): note.tokens for note in self.notes if note.what == "begun"}
        ended = [note for note in self.notes if note.what == "finished" and note.seconds]
        return [(note.tokens - first[note.message, note.attempt]) / note.seconds for note in ended]

    def last_words(self) -> str:
        """What they said at last besides their notes."""
        return "\n".join(path.with_suffix(".err").read_text(errors="replace")[-1_000:] for path in self._read)

    def _started(self) -> subprocess.Popen[bytes]:
        path = self._folder / f"agent{len(self._read) + 1}.notes"
        self._read[path] = 0
        with path.with_suffix(".err").open("wb") as err:
            return subprocess.Popen(
                [sys.executable, "-m", "tests.trials.streaming_agent", self._url, path],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=err,
                cwd=ROOT,
                env=environment(HUB_TOKEN=self._token),
            )

    def _check_end(self, code: int, wanted: int) -> None:
        assert code == wanted, f"an agent process ended with {code}:\n{self.last_words()}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *args: object) -> None:
        codes = [_end(process) for process in self._processes]
        if kind is None:
            for code in codes:
                self._check_end(code, 0)


def _end(process: subprocess.Popen[bytes]) -> int:
    """End it in order, or see that it has ended; its exit code."""
    assert process.stdin is not None
    process.stdin.close()
    try:
        return process.wait(SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait(SECONDS)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
