"""Agent code inside the hub: the same facade, linked to the node of its process."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import pytest

import hub as hub_package
from hub import AgentContext, Conflict, Exists, NotFound, Removed, RunStopped, Unavailable
from hub.agent.registry import Registry
from hub.core.requests import Apply, Author, Control, LogAdd, Remove, Role, StateMerge
from hub.node import contexts as contexts_module
from hub.node.inprocess import NodeLink
from hub.record.port import Append, Appended
from hub.server.server import HubServer
from tests.support import until

OTHERS = Author("somebody", Role.OPERATOR)


@pytest.fixture(autouse=True)
async def link(hub: HubServer, registry: Registry) -> NodeLink:
    link = NodeLink(hub.node)
    registry.bind(link)
    return link


async def others(hub: HubServer, body: Any) -> None:
    answer = await hub.node.contexts.request(hub.node.contexts.stamp(body, OTHERS))
    assert isinstance(answer, dict), answer


def same(ctx: AgentContext, hub: HubServer) -> None:
    theirs = hub.node.contexts.live[ctx.id].replica.state
    with ctx.writer.lock:
        mine = ctx.writer.read()
        assert mine.document == theirs.document
        assert mine.log.to_json() == theirs.log.to_json()
        assert mine.data == theirs.data


async def test_writes_reach_the_node(hub: HubServer) -> None:
    ctx = AgentContext(name="N", data={"a": 1}, state={"n": 0})
    entry = ctx.log.log("agent", "Heading")
    entry.stream("text")
    with ctx.batch():
        ctx.state.incr("n")
        ctx.set_output_data("o", 1)
    await until(lambda: ctx.id in hub.node.contexts.live)
    await others(hub, Apply(context=ctx.id, ops=[LogAdd(type="info"), StateMerge(value={"o": 1})]))
    ctx.state.incr("n")
    await ctx.flush()
    same(ctx, hub)
    assert ctx.state == {"n": 2, "o": 1}
    assert ctx.writer.view.pending == []


async def test_writes_stay_pending_while_the_record_is_away(hub: HubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """For longer than a client's request waits, though both are in one append: nobody would write them again."""
    monkeypatch.setattr(contexts_module, "WAIT", 0.1)
    ctx = AgentContext(id="one", state={"l": []})
    await ctx.flush()
    tries: list[list[int]] = []

    async def away(appends: Sequence[Append]) -> list[Appended]:
        tries.append([len(append.entry.changes) for append in appends])
        raise Unavailable("away")

    with monkeypatch.context() as patched:
        patched.setattr(hub.node.record, "append", away)
        for n in range(3):
            ctx.state.append("l", n)
        request = hub.node.contexts.stamp(Apply(context="one", ops=[StateMerge(value={"o": 1})]), OTHERS)
        asked = asyncio.create_task(hub.node.contexts.request(request))
        made = AgentContext(id="two", name="made meanwhile")
        made.state["n"] = 1
        assert isinstance(await asked, Unavailable)
        assert tries[0] == [4, 1]
        tried = len(tries)
        await until(lambda: len(tries) > tried + 2)
        assert ctx.state["l"] == [0, 1, 2], "its author sees what it wrote"
    await asyncio.gather(ctx.flush(), made.flush())
    same(made, hub)
    assert made.state == {"n": 1}
    await until(lambda: ctx.state == {"l": [0, 1, 2], "o": 1})
    same(ctx, hub)


async def test_20_threads_and_blocking_tasks(hub: HubServer) -> None:
    ctx, go = AgentContext(id="one"), threading.Event()
    await ctx.flush()
    blocked = AgentContext().run_task(go.wait, 10)

    def write(thread: int) -> None:
        for number in range(200):
            ctx.log.log("info", str(thread), str(number))

    await asyncio.gather(*(asyncio.to_thread(write, thread) for thread in range(8)))
    await ctx.flush()
    go.set()
    await blocked.result(5)
    entries = hub.node.contexts.live["one"].replica.state.log.entries
    for thread in range(8):
        assert [e.content for e in entries if e.heading == str(thread)] == [str(n) for n in range(200)]


async def test_03_exists_and_open(hub: HubServer, registry: Registry) -> None:
    ctx = AgentContext(id="one", data={"a": 1})
    await ctx.flush()
    ctx.close()
    twice = AgentContext(id="one", data={"b": 1})
    with pytest.raises(Exists):
        await twice.flush()
    assert twice.closed == "exists"
    again = await hub_package.open("one")
    assert again.data == {"a": 1}
    again.set_data("c", 1)
    await again.flush()
    same(again, hub)
    with pytest.raises(NotFound):
        await hub_package.open("none")
    made = await hub_package.create(id="two")
    assert AgentContext.get("two") is made
    with pytest.raises(Exists):
        await hub_package.create(id="two")


async def test_03_replace(hub: HubServer) -> None:
    old = AgentContext(id="one", data={"a": 1})
    await old.flush()
    new = AgentContext(id="one", data={"b": 1}, replace=True)
    await new.flush()
    assert hub.node.contexts.live["one"].replica.state.data == {"b": 1}
    with pytest.raises(Removed):
        old.set_data("c", 1)


async def test_04_remove(hub: HubServer) -> None:
    ctx = AgentContext(id="one")
    await ctx.flush()
    AgentContext.remove("one")
    await until(lambda: "one" not in hub.node.contexts.live)
    there = await hub_package.create(id="two")
    await others(hub, Control(context="two", action="pause"))
    await until(lambda: there.paused)
    await hub.node.contexts.request(hub.node.contexts.stamp(Remove(context="two"), OTHERS))
    await until(lambda: there.closed == "removed")
    assert AgentContext.get("two") is None


async def test_17_log_to_all(hub: HubServer) -> None:
    ctx = await hub_package.create(id="one")
    await hub_package.create(id="two", type="background")
    AgentContext.get("two").close()  # type: ignore[union-attr]
    entries = AgentContext.log_to_all("warning", "Maintenance", a=1)
    assert entries[0].heading == "Maintenance"  # it is on its way
    await until(lambda: len(hub.node.contexts.live["two"].replica.state.log.entries) == 1)
    await until(lambda: len(ctx.log) == 1)
    assert [entry.heading for entry in entries] == ["Maintenance"]
    assert entries[0].output() == ctx.log.entries()[0].output()


async def test_a_stop_reaches_the_task(hub: HubServer) -> None:
    ctx = await hub_package.create(id="one")
    task = ctx.run_task(asyncio.sleep, 60)
    await until(lambda: ctx.writer.held_run)
    await others(hub, Control(context="one", action="stop"))
    with pytest.raises(RunStopped):
        await task.result(5)
    await ctx.flush()
    assert hub.node.contexts.live["one"].replica.state.document["run"]["status"] == "stopped"


async def test_refused_writes(hub: HubServer) -> None:
    ctx = await hub_package.create(id="one", state={"n": 1})
    ctx.state.merge({"n": 2}, expected="other:7")
    with pytest.raises(Conflict):
        await ctx.flush()
    assert ctx.state == {"n": 1}
    same(ctx, hub)


async def test_loading_anew_doubles_nothing(hub: HubServer, link: NodeLink) -> None:
    ctx = await hub_package.create(id="one")
    link.attach(ctx.writer, create=False, replace=False)
    ctx.log.log("info", "after")
    await others(hub, Apply(context="one", ops=[LogAdd(type="info", heading="others")]))
    await ctx.flush()
    await until(lambda: len(ctx.log) == 2)
    same(ctx, hub)


async def test_18_a_notification_is_a_notice(hub: HubServer) -> None:
    await hub_package.create(id="one", user_id="anna", set_current=True)
    AgentContext.get_notification_manager().send_notification("info", "M", id="n1")
    notice = await until(lambda: hub.node.notices.find("n1"))
    assert (notice["source"], notice["context"], notice["audience"]) == ("context", "one", "anna")
