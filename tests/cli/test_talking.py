"""new, send, control, remove, broadcast, notice and token against a running hub."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from tests.cli.worker import Run, connected, serving
from tests.support import HubProcess, until, wait_until


def test_new_prints_the_id_and_nothing_else(shared_hub: HubProcess) -> None:
    done = shared_hub.run("new", "--name", "A name", "--agent", "nobody", "--when-busy", "reject")
    id = done.stdout.strip()
    assert done.stdout == id + "\n"
    document = shared_hub.json("show", id)["document"]
    assert (document["name"], document["agent"], document["type"]) == ("A name", "nobody", "user")
    assert document["when_busy"] == "reject"
    assert shared_hub.json("new", "--id", "own-id", "--type", "task")["id"] == "own-id"
    again = shared_hub.run("new", "--id", "own-id")
    assert again.returncode == 1
    assert "[exists]" in again.stderr


async def test_messages_and_files_wait_for_an_agent(shared_hub: HubProcess, tmp_path: Path) -> None:
    id = "waiting"
    file = tmp_path / "log with space.txt"
    file.write_bytes(b"one\ntwo\n")
    async with connected(shared_hub.url, shared_hub.token) as client:
        await client.ok("context.create", id=id, agent="away")
        sent = await asyncio.to_thread(shared_hub.json, "send", id, "look", "--attach", str(file))
        await asyncio.to_thread(shared_hub.json, "send", id, "-", input="from a pipe\n")
        first, second = (await client.document(id))["queue"]
    assert first["id"] == sent["id"]
    assert first["text"] == "look"
    assert [(item["name"], item["size"], item["type"]) for item in first["attachments"]] == [
        ("log with space.txt", 8, "text/plain")
    ]
    assert second["text"] == "from a pipe\n"
    for arguments in ([id, "--attach", str(tmp_path / "none")], [id]):
        refused = shared_hub.run("send", *arguments)
        assert refused.returncode == 1
        assert "[invalid_request]" in refused.stderr


async def test_send_says_whether_the_agent_is_there(shared_hub: HubProcess) -> None:
    async def handle(run: Run) -> None:
        await run.apply({"op": "run.set", "status": "finished"})

    shared_hub.json("new", "--id", "lonely", "--agent", "there")
    shared_hub.json("new", "--id", "nameless")
    lonely = await asyncio.to_thread(shared_hub.run, "send", "lonely", "hi")
    assert lonely.returncode == 0
    assert "No agent 'there' is connected now" in lonely.stderr
    assert "'demo' is not connected" in (await asyncio.to_thread(shared_hub.run, "send", "nameless", "hi")).stderr
    async with serving(shared_hub.url, shared_hub.token, handle, agent="there"):
        assert "connected" not in (await asyncio.to_thread(shared_hub.run, "send", "lonely", "hi")).stderr


async def test_send_waits_for_the_answer(shared_hub: HubProcess) -> None:
    async def handle(run: Run) -> None:
        text = run.messages[0]["text"]
        await run.apply(
            {"op": "log.add", "id": f"r-{text}", "type": "response", "heading": "Answer", "content": "The "}
        )
        await run.apply({"op": "log.append", "id": f"r-{text}", "text": f"word was {text}."})
        await run.apply({"op": "output.set", "key": "word", "value": text})
        status = "failed" if text == "bad" else "finished"
        await run.apply({"op": "run.set", "status": status, **({"error": "no"} if text == "bad" else {})})

    async with connected(shared_hub.url, shared_hub.token) as client:
        await client.ok("context.create", id="asked", agent="teller")
        await client.log("asked", content="older")
    async with serving(shared_hub.url, shared_hub.token, handle, agent="teller"):
        answer = await asyncio.to_thread(shared_hub.json, "send", "asked", "good", "--wait")
        assert answer["run"]["status"] == "finished"
        assert [entry["content"] for entry in answer["entries"]] == ["good", "The word was good."]
        assert answer["output"] == {"word": "good"}
        shown = await asyncio.to_thread(shared_hub.run, "send", "asked", "better", "--wait")
        assert shown.returncode == 0, shown.stderr
        assert "The word was better." in shown.stdout
        assert "older" not in shown.stdout
        assert "finished" in shown.stdout
        failed = await asyncio.to_thread(shared_hub.run, "send", "asked", "bad", "--wait", "--json")
        assert failed.returncode == 1
        assert json.loads(failed.stdout)["run"]["error"] == "no"


async def test_control_reaches_the_run(shared_hub: HubProcess) -> None:
    held = asyncio.Event()

    async def hold(run: Run) -> None:
        held.set()
        await asyncio.Event().wait()

    async with serving(shared_hub.url, shared_hub.token, hold, agent="holder") as client:
        await client.ok("context.create", id="held", agent="holder")
        await client.ok("message", context="held", text="hold")
        await asyncio.wait_for(held.wait(), 10)
        for action, paused in (("pause", True), ("resume", False)):
            await asyncio.to_thread(shared_hub.json, "control", "held", action)
            assert (await client.document("held"))["paused"] is paused
        done = await asyncio.to_thread(shared_hub.run, "control", "held", "stop")
        assert "accepted" in done.stderr
        assert (await client.document("held"))["run"]["status"] in ("stopping", "stopped")


async def test_remove_asks_first(shared_hub: HubProcess) -> None:
    id = "removed"
    async with connected(shared_hub.url, shared_hub.token) as client:
        await client.ok("context.create", id=id)
        kept = await asyncio.to_thread(shared_hub.run, "remove", id, input="n\n")
        assert kept.returncode == 1
        assert (await client.document(id))["id"] == id
    shared_hub.json("remove", id, "--yes")
    assert "[not_found]" in shared_hub.run("show", id).stderr


async def test_broadcast_adds_an_entry_everywhere(shared_hub: HubProcess) -> None:
    async with connected(shared_hub.url, shared_hub.token) as client:
        for id in ("told-1", "told-2"):
            await client.ok("context.create", id=id)
        command = ("broadcast", "Restart soon", "--type", "warning", "--heading", "Hear")
        assert (await asyncio.to_thread(shared_hub.json, *command))["contexts"] >= 2
        for id in ("told-1", "told-2"):
            (entry,) = (await client.ok("subscribe", topic=f"context:{id}"))["entries"]
            assert (entry["type"], entry["heading"], entry["content"]) == ("warning", "Hear", "Restart soon")
    wrong = shared_hub.run("broadcast", "x", "--type", "nonsense")
    assert wrong.returncode == 1
    assert "[unknown_type]" in wrong.stderr
    token = shared_hub.json("token", "--sub", "maria", "--role", "user")["token"]
    refused = shared_hub.run("broadcast", "x", "--token", token)
    assert "[forbidden]" in refused.stderr
    assert "operator" in refused.stderr


async def test_notices_come_and_go(shared_hub: HubProcess) -> None:
    posted = shared_hub.run(
        *(
            "notice",
            "post",
            "Bring [red]tea[/]",
            "--type",
            "warning",
            "--title",
            "Soon",
            "--id",
            "tea",
            "--expires",
            "1h",
        ),
        *("--priority", "high"),
    )
    assert posted.stdout == "tea\n"
    shared_hub.json("notice", "post", "For you", "--for", "maria", "--id", "hers")
    listed = shared_hub.json("notice", "list")
    rows = {row["id"]: row for row in listed["notices"]}
    assert listed["read"] == []
    assert rows["tea"]["priority"] == 20
    assert rows["tea"]["expires_at"] is not None
    assert rows["hers"]["audience"] == "maria"
    shown = shared_hub.run("notice", "list").stdout
    assert "Soon: Bring [red]tea[/]" in shown
    assert "in 1 h" in shown
    assert shared_hub.json("notice", "clear", "tea") == {"cleared": ["tea"]}
    assert "[not_found]" in shared_hub.run("notice", "clear", "tea").stderr
    assert shared_hub.json("notice", "clear", "--all") == {"cleared": ["hers"]}
    assert "no notices" in shared_hub.run("notice", "list").stderr
    assert shared_hub.run("notice", "clear").returncode == 2
    wrong = shared_hub.run("notice", "post", "x", "--expires", "tomorrow")
    assert "[invalid_request]" in wrong.stderr
    assert "ISO 8601" in wrong.stderr
    over = shared_hub.run("notice", "post", "x", "--expires", "2020-01-01T00:00:00Z")
    assert over.returncode == 1
    assert "over already; write when it will end" in over.stderr
    shared_hub.json("notice", "post", "Short", "--expires", "1s", "--id", "short")
    await until(lambda: not shared_hub.json("notice", "list")["notices"], "its expiry")


async def test_tokens_do_what_they_say(shared_hub: HubProcess) -> None:
    async with connected(shared_hub.url, shared_hub.token) as client:
        for id in ("crawl-1", "other-1"):
            await client.ok("context.create", id=id)
    made = shared_hub.run("token", "--sub", "bot", "--role", "agent", "--ctx", "crawl-*", "--ttl", "1h").stdout
    assert made.count("\n") == 1
    said = shared_hub.run("token", "--sub", "ann", "--role", "user").stderr
    assert f"{shared_hub.url}/#token=" in said
    link = shared_hub.run("token", "--sub", "ann", "--role", "user", "--link").stdout
    assert link.startswith(f"{shared_hub.url}/#token=")
    assert "\n" not in link[:-1]
    assert shared_hub.run("contexts", "--url", link.strip(), "--data-dir", "/nonexistent").returncode == 0
    elsewhere = shared_hub.run("token", "--sub", "ann", "--role", "user", "--link", "--url", "https://hub.example.com")
    assert elsewhere.stdout.startswith("https://hub.example.com/#token=")
    token = made.strip()
    assert shared_hub.json("show", "crawl-1", "--token", token)["document"]["id"] == "crawl-1"
    assert "[not_found]" in shared_hub.run("show", "other-1", "--token", token).stderr
    viewer = shared_hub.json("token", "--sub", "eve", "--role", "viewer", "--ctx", "crawl-*")["token"]
    assert "[forbidden]" in shared_hub.run("send", "crawl-1", "hi", "--token", viewer).stderr
    short = shared_hub.json("token", "--sub", "eve", "--role", "operator", "--ttl", "1s")
    assert short["ttl"] == 1
    wait_until(lambda: "[unauthorized]" in shared_hub.run("contexts", "--token", short["token"]).stderr, "its expiry")
    assert shared_hub.run("token", "--sub", "a", "--role", "agent").returncode == 1
    assert shared_hub.run("token", "--sub", "a", "--role", "king").returncode == 2
    elsewhere = shared_hub.run("token", "--sub", "a", "--role", "user", "--data-dir", "/nonexistent")
    assert "[start_error]" in elsewhere.stderr
