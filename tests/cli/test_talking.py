"""new, send, control, remove, broadcast, notice and token against a running hub."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from tests.cli.worker import Run, connected, serving
from tests.support import HubProcess, until, wait_until


def test_new_prints_the_id_and_nothing_else(shared_hub: HubProcess) -> None:
    done = shared_hub.run("new", "--name", "A name", "--agent", "nobody")
    id = done.stdout.strip()
    assert done.stdout == id + "\n"
    document = shared_hub.json("show", id)["document"]
    assert (document["name"], document["agent"], document["type"]) == ("A name", "nobody", "user")
    assert shared_hub.json("new", "--id", "own-id", "--type", "task")["id"] == "own-id"
    again = shared_hub.run("new", "--id", "own-id")
    assert again.returncode == 1
    assert "[exists]" in again.stderr


def test_messages_and_files_wait_for_an_agent(shared_hub: HubProcess, tmp_path: Path) -> None:
    id = shared_hub.json("new", "--agent", "away")["id"]
    file = tmp_path / "log with space.txt"
    file.write_bytes(b"one\ntwo\n")
    sent = shared_hub.json("send", id, "look", "--attach", str(file))
    shared_hub.json("send", id, "-", input="from a pipe\n")
    first, second = shared_hub.json("show", id)["document"]["queue"]
    assert first["id"] == sent["id"]
    assert first["text"] == "look"
    assert [(item["name"], item["size"], item["type"]) for item in first["attachments"]] == [
        ("log with space.txt", 8, "text/plain")
    ]
    assert second["text"] == "from a pipe\n"
    for arguments in ([id, "--attach", str(tmp_path / "none")], [id], [id, "   "]):
        refused = shared_hub.run("send", *arguments)
        assert refused.returncode == 1
        assert "[invalid_request]" in refused.stderr


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
        await client.request("context.create", id="asked", agent="teller")
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

    id = (await asyncio.to_thread(shared_hub.json, "new", "--agent", "holder"))["id"]
    async with serving(shared_hub.url, shared_hub.token, hold, agent="holder"):
        await asyncio.to_thread(shared_hub.json, "send", id, "hold")
        await asyncio.wait_for(held.wait(), 10)
        for action, paused in (("pause", True), ("resume", False)):
            await asyncio.to_thread(shared_hub.json, "control", id, action)
            document = (await asyncio.to_thread(shared_hub.json, "show", id))["document"]
            assert document["paused"] is paused
        done = await asyncio.to_thread(shared_hub.run, "control", id, "stop")
        assert "accepted" in done.stderr
        document = (await asyncio.to_thread(shared_hub.json, "show", id))["document"]
        assert document["run"]["status"] in ("stopping", "stopped")


def test_remove_asks_first(shared_hub: HubProcess) -> None:
    id = shared_hub.json("new")["id"]
    kept = shared_hub.run("remove", id, input="n\n")
    assert kept.returncode == 1
    assert shared_hub.json("show", id)["document"]["id"] == id
    shared_hub.json("remove", id, "--yes")
    assert "[not_found]" in shared_hub.run("show", id).stderr


def test_broadcast_adds_an_entry_everywhere(shared_hub: HubProcess) -> None:
    ids = [shared_hub.json("new")["id"] for _ in range(2)]
    told = shared_hub.json("broadcast", "Restart soon", "--type", "warning", "--heading", "Hear")
    assert told["contexts"] >= 2
    for id in ids:
        (entry,) = shared_hub.json("show", id)["entries"]
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
    assert "in 59 min" in shown
    assert shared_hub.json("notice", "clear", "tea") == {"cleared": ["tea"]}
    assert "[not_found]" in shared_hub.run("notice", "clear", "tea").stderr
    assert shared_hub.json("notice", "clear", "--all") == {"cleared": ["hers"]}
    assert "no notices" in shared_hub.run("notice", "list").stderr
    assert shared_hub.run("notice", "clear").returncode == 2
    wrong = shared_hub.run("notice", "post", "x", "--expires", "tomorrow")
    assert "[invalid_request]" in wrong.stderr
    shared_hub.json("notice", "post", "Short", "--expires", "1s", "--id", "short")
    await until(lambda: not shared_hub.json("notice", "list")["notices"], "its expiry")


def test_tokens_do_what_they_say(shared_hub: HubProcess) -> None:
    for id in ("crawl-1", "other-1"):
        shared_hub.json("new", "--id", id)
    made = shared_hub.run("token", "--sub", "bot", "--role", "agent", "--ctx", "crawl-*", "--ttl", "1h").stdout
    assert made.count("\n") == 1
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
