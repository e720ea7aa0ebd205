"""Child processes of tasks: they end with their task, and so does all that descends from them."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hub import AgentContext, InvalidRequest, RunStopped
from hub.agent.family import MARK
from tests.descendants import begun, ended, family_of
from tests.support import until


async def stop_amid(ctx: AgentContext, work: Callable[[], Any], file: Path) -> None:
    """Stop a task once the family that it starts is there: all of it ends."""
    task = ctx.run_task(work)
    ids = await begun(file)
    await ctx.kill_process()
    await ended(ids, 5)
    with pytest.raises(RunStopped):
        await task.result(5)


async def test_a_stop_ends_what_a_coroutine_started(tmp_path: Path) -> None:
    ctx, file = AgentContext(), tmp_path / "ids"

    async def work() -> None:
        process = await ctx.create_subprocess_exec(*family_of(file))
        await process.wait()

    await stop_amid(ctx, work, file)
    assert ctx.document()["run"]["status"] == "stopped"


@pytest.mark.parametrize("stubborn", [False, True])
async def test_a_stop_ends_what_a_function_waits_for(tmp_path: Path, stubborn: bool) -> None:
    ctx, file, codes = AgentContext(), tmp_path / "ids", list[int]()

    def work() -> None:
        with ctx.popen(family_of(file, stubborn=stubborn)) as process:
            codes.append(process.wait())
        ctx.wait_checkpoint()

    await stop_amid(ctx, work, file)
    assert codes == ([-9] if stubborn else [-15])


async def test_a_task_that_is_over_leaves_nothing_behind(tmp_path: Path) -> None:
    """Its run ends after them."""
    ctx, ids = AgentContext(), list[int]()

    async def work(file: Path, error: Exception | None) -> None:
        await ctx.create_subprocess_exec(*family_of(file))
        ids.extend(await begun(file))
        if error is not None:
            raise error

    await ctx.run_task(work, tmp_path / "returns", None).result(10)
    await ended(ids, 0.5)
    with pytest.raises(ValueError, match="no luck"):
        await ctx.run_task(work, tmp_path / "fails", ValueError("no luck")).result(10)
    await ended(ids, 0.5)


async def test_each_task_has_its_own(tmp_path: Path) -> None:
    """The end of one does not end the other's, also while one is the other's child."""
    ctx = AgentContext()
    go = asyncio.Event()

    async def outer() -> None:
        await ctx.create_subprocess_exec(*family_of(tmp_path / "outer"))
        ids = await begun(tmp_path / "outer")
        await ctx.run_task(inner).result(10)
        await ended(inner_ids, 0.5)
        assert await begun(tmp_path / "outer") == ids, "and all of them are alive"

    inner_ids: list[int] = []

    async def inner() -> None:
        await ctx.create_subprocess_exec(*family_of(tmp_path / "inner"))
        inner_ids.extend(await begun(tmp_path / "inner"))
        go.set()

    await ctx.run_task(outer).result(20)


async def test_what_is_given_to_a_process_stays(tmp_path: Path) -> None:
    ctx = AgentContext()

    def work() -> tuple[str, str]:
        script = f"import os; print(os.environ['GIVEN'], '{MARK}' in os.environ, os.environ.get('HOME'))"
        process = ctx.popen(
            [sys.executable, "-c", script], env={"GIVEN": "yes"}, stdout=subprocess.PIPE, text=True, cwd=tmp_path
        )
        out, _ = process.communicate(timeout=10)
        inherited = ctx.popen(["sh", "-c", "echo $PATH"], stdout=subprocess.PIPE, text=True)
        return out, inherited.communicate(timeout=10)[0]

    given, inherited = await ctx.run_task(work).result(20)
    assert (given, inherited) == ("yes True None\n", os.environ["PATH"] + "\n")


async def test_where_none_can_be_started(tmp_path: Path) -> None:
    ctx = AgentContext()
    with pytest.raises(InvalidRequest, match="run_task"):
        ctx.popen(["true"])
    with pytest.raises(InvalidRequest, match="run_task"):
        await ctx.create_subprocess_exec("true")
    refused: list[Exception] = []
    began = threading.Event()

    async def work() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            try:
                ctx.popen(["touch", str(tmp_path / "late")])
            except RunStopped as error:
                refused.append(error)

    task = ctx.run_task(work)
    await until(began.is_set)
    await task.kill()
    assert len(refused) == 1
    assert not (tmp_path / "late").exists()

    async def missing() -> None:
        await ctx.create_subprocess_exec(str(tmp_path / "missing"))

    with pytest.raises(FileNotFoundError):
        await ctx.run_task(missing).result(5)
