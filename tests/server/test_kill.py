"""The hub gets SIGKILL and starts again on its folder: everything that was answered or shown is there."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.clients import Client, Follower
from tests.support import HubProcess, until


async def client_of(hub: HubProcess, kind: str = "websocket") -> Client:
    return await Client(hub.url, hub.token, kind).connect()


async def test_everything_that_was_answered_is_there(tmp_path: Path) -> None:
    """Writers are in full swing when it dies, and send again, with their keys, what was not answered."""
    with HubProcess(tmp_path, HUB_RUN_GRACE="60") as hub:
        op = await client_of(hub)
        await op.ok("context.create", id="c", agent="nobody", state={"kept": True})
        await op.ok("notice.post", id="n", message="read this")
        await op.ok("notice.read", ids=["n"])
        await op.ok("apply", context="c", ops=[{"op": "data.set", "key": "k", "value": [1]}])
        await op.ok("apply", context="c", ops=[{"op": "session_context.save", "value": {"goal": "g", "plan": ["a"]}}])
        waiting = [(await op.ok("message", context="c", text=str(n)))["id"] for n in range(3)]
        viewer, follower = await client_of(hub), Follower("c")
        await follower.subscribe(viewer)
        answered: dict[str, dict[str, Any]] = {}

        async def write(name: str, client: Client) -> None:
            for n in range(1, 10_000):
                key = f"{name}/{n}"
                ops = [{"op": "log.add", "type": "info", "content": key}, {"op": "state.incr", "path": f"/{name}"}]
                try:
                    answered[key] = await client.call("apply", {"context": "c", "ops": ops, "key": key}, seconds=2)
                except Exception:
                    return

        writers = [await client_of(hub, kind) for kind in ("websocket", "msgpack", "websocket")]
        tasks = [asyncio.create_task(write(f"w{n}", client)) for n, client in enumerate(writers)]
        await until(lambda: len(answered) > 100)
        hub.kill()
        await viewer.next("disconnect")
        shown = follower.read(viewer).position.seq
        await asyncio.gather(*tasks)
        hub.restart()
        op = await client_of(hub)
        got = await op.ok("context.get", context="c")
        assert got["seq"] >= max(shown, *(reply["seq"] for reply in answered.values()))
        log = (await op.ok("subscribe", topic="context:c", tail=1000))["entries"]
        contents = [entry["content"] for entry in log]
        assert len(contents) == len(set(contents)) == got["document"]["log"]["length"]
        assert set(answered) <= set(contents)
        for name in ("w0", "w1", "w2"):
            mine = [content for content in contents if content.startswith(name)]
            assert mine == [f"{name}/{n}" for n in range(1, len(mine) + 1)], "in the writer's order, none left out"
            assert got["document"]["state"][name] == len(mine)
        for key, reply in list(answered.items())[-20:]:
            ops = [{"op": "log.add", "type": "info", "content": key}, {"op": "state.incr", "path": f"/{key[:2]}"}]
            assert await op.ok("apply", context="c", ops=ops, key=key) == reply | {"duplicate": True}
        assert got["document"]["session_context"]["goal"] == "g"
        assert got["data"] == {"k": [1]}
        assert [item["id"] for item in got["document"]["queue"]] == waiting
        notices = await op.ok("subscribe", topic="notices")
        assert ([row["id"] for row in notices["rows"]], notices["read"]) == (["n"], ["n"])
        viewer = await client_of(hub)
        assert (await follower.subscribe(viewer))["recovered"], "what was shown is in the record, so nobody starts over"
        await viewer.until(lambda: follower.read(viewer).position.seq >= got["seq"])
        assert follower.state.document == got["document"]
        worker = await client_of(hub)
        await worker.ok("agent.serve", agent="nobody", capacity=1)
        assert (await worker.next("run.start"))["messages"][0]["id"] == waiting[0]
        for client in (op, viewer, worker, *writers):
            await client.close()


@pytest.mark.parametrize("comes_back", [True, False])
async def test_a_run_in_the_middle(tmp_path: Path, comes_back: bool) -> None:
    """The worker that comes back keeps its run; without it the run is interrupted after the grace, and can be nudged."""
    with HubProcess(tmp_path, HUB_RUN_GRACE="2") as hub:
        op, worker = await client_of(hub), await client_of(hub, "msgpack")
        await op.ok("context.create", id="c", agent="bot")
        await worker.ok("agent.serve", agent="bot", capacity=1)
        await op.ok("message", context="c", text="work")
        start = await worker.next("run.start")
        ops = [{"op": "run.set", "status": "running"}, {"op": "log.add", "type": "info", "id": "e", "content": "half"}]
        await worker.ok("apply", context="c", ops=ops, run=start["run"], key="w/1")
        await op.ok("message", context="c", text="next")
        hub.kill()
        hub.restart()
        op, back = await client_of(hub), await client_of(hub, "msgpack")
        document = (await op.ok("context.get", context="c"))["document"]
        assert (document["running"], document["run"]["status"]) == (True, "running")
        if comes_back:
            held = [{"context": "c", "run": start["run"]}]
            assert (await back.ok("agent.serve", agent="bot", capacity=1, runs=held))["lost"] == []
            assert (await back.ok("apply", context="c", ops=ops, run=start["run"], key="w/1"))["duplicate"]
            ops = [{"op": "log.append", "id": "e", "text": " and whole"}, {"op": "run.set", "status": "finished"}]
            await back.ok("apply", context="c", ops=ops, run=start["run"], key="w/2")
            assert (await back.next("run.start"))["messages"][0]["text"] == "next"
            assert (await op.ok("subscribe", topic="context:c"))["entries"][1]["content"] == "half and whole"
        else:
            await op.ok("subscribe", topic="context:c")
            await op.next("snapshot", lambda event: event["document"]["run"]["status"] == "interrupted")
            await back.refused("apply", "run_lost", context="c", ops=[], run=start["run"])
            await back.ok("agent.serve", agent="bot", capacity=1)
            after = await back.next("run.start")
            assert after["messages"][0]["text"] == "next"
        for client in (op, back, worker):
            await client.close()


async def test_messages_that_wait_find_a_worker_after_the_kill(tmp_path: Path) -> None:
    with HubProcess(tmp_path) as hub:
        op = await client_of(hub)
        await asyncio.gather(*(op.ok("context.create", id=f"c{n}", agent="bot") for n in range(20)))
        sent = await asyncio.gather(*(op.ok("message", context=f"c{n}", text=str(n)) for n in range(20)))
        hub.kill()
        hub.restart()
        worker = await client_of(hub)
        await worker.ok("agent.serve", agent="bot", capacity=100)
        await worker.until(lambda: len(worker.runs) == 20)
        assert {run["messages"][0]["id"] for run in worker.runs} == {reply["id"] for reply in sent}
        await worker.close()
        await op.close()


async def test_a_stock_client_watches_on_through_the_kill(tmp_path: Path) -> None:
    """Its own reconnecting is enough: on every hello it subscribes from where it stands."""
    import socketio

    with HubProcess(tmp_path) as hub:
        op = await client_of(hub)
        await op.ok("context.create", id="c")
        seen: list[int] = []
        viewer = socketio.AsyncClient(reconnection_delay=0.05, reconnection_delay_max=0.2, randomization_factor=0.1)
        at: dict[str, Any] = {}

        async def hello(_: dict[str, Any]) -> None:
            request = {"topic": "context:c", "deliver": "patch"} | ({"from": dict(at)} if at else {})
            reply = await viewer.call("subscribe", request)
            assert not at or reply["recovered"]
            at.update(epoch=reply["epoch"], seq=max(reply["seq"], at.get("seq", 0)))

        def change(event: dict[str, Any]) -> None:
            if event["seq"] > (seen[-1] if seen else 0):
                seen.append(event["seq"])
                at["seq"] = event["seq"]

        viewer.on("hello", hello)
        viewer.on("change", change)
        await viewer.connect(hub.url, auth={"token": hub.token}, transports=["websocket"])
        await until(lambda: at, "the subscription")
        for round in range(2):
            for _ in range(10):
                await op.ok("apply", context="c", ops=[{"op": "state.incr", "path": "/n"}])
            end = (await op.ok("context.get", context="c"))["seq"]
            await until(lambda: seen and seen[-1] == end)  # noqa: B023 - waited for right here
            if not round:
                hub.kill()
                hub.restart()
                op = await client_of(hub)
        assert seen == list(range(2, 22))
        await viewer.disconnect()
        await op.close()
