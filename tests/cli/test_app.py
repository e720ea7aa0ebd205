"""Agent code inside the hub: serve --app module:setup."""

from __future__ import annotations

import re
import signal
from pathlib import Path

from tests.support import ROOT, HubProcess, run_command, wait_until

APP = """
import asyncio
import threading
from hub import AgentContext

def threads(hub):
    ctx = AgentContext(id="app", name="In the hub")
    def write(n):
        for i in range(50):
            ctx.log.log("info", heading=f"thread {n}", content=str(i))
    for n in range(8):
        threading.Thread(target=write, args=(n,), daemon=True).start()

async def lasting(hub):
    ctx = AgentContext(id="app")
    ctx.state["url"] = hub.url
    try:
        await asyncio.Event().wait()
    finally:
        ctx.log.log("info", "the last word")

async def failing(hub):
    AgentContext(id="app")
    raise ValueError("no luck")

def broken(hub):
    raise ValueError("no luck")
"""


def _hub(tmp_path: Path, function: str, record: str = "memory") -> HubProcess:
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "agents_for_test.py").write_text(APP)
    hub = HubProcess(tmp_path, record=record)
    hub.options = ["--app", f"agents_for_test:{function}"]
    return hub


def test_threads_of_agent_code_write_in_order(tmp_path: Path) -> None:
    with _hub(tmp_path, "threads", "embedded") as hub:
        wait_until(lambda: hub.json("show", "app")["document"]["log"]["length"] == 400)
        entries = hub.json("show", "app", "-n", "500")["entries"]
        assert len(entries) == 400
        for number in range(8):
            mine = [entry["content"] for entry in entries if entry["heading"] == f"thread {number}"]
            assert mine == [str(n) for n in range(50)]
        assert hub.stop() == 0


def test_a_coroutine_runs_as_long_as_the_hub(tmp_path: Path) -> None:
    with _hub(tmp_path, "lasting", "embedded") as hub:
        assert hub.json("show", "app")["document"]["state"] == {"url": hub.url}
        assert hub.stop() == 0
        hub.options = []
        hub.start()
        assert [entry["heading"] for entry in hub.json("show", "app")["entries"]] == ["the last word"]


def test_one_that_fails_later_is_told_and_the_hub_goes_on(tmp_path: Path) -> None:
    with _hub(tmp_path, "failing") as hub:
        assert hub.running is not None
        wait_until(lambda: "ValueError: no luck" in hub.running.err if hub.running else False)
        assert hub.json("health")["status"] == "ok"


def test_one_that_fails_at_once_is_told_and_the_hub_ends(tmp_path: Path) -> None:
    hub = _hub(tmp_path, "broken")
    arguments = ["--port", "0", "--data-dir", str(hub.folder), "--record", "memory", *hub.options]
    done = run_command("serve", *arguments, cwd=tmp_path / "runs")
    assert done.returncode == 1
    assert re.search(r"error: --app agents_for_test:broken failed: ValueError: no luck", done.stderr)


SERVED = """
import time
from pathlib import Path
from hub import AgentContext

def setup(hub):
    agent = hub.agent("inside")

    @agent.on_message
    async def answer(ctx, message):
        assert AgentContext.current() is ctx
        if message.message == "fail":
            raise ValueError("no luck")
        entry = ctx.log.log("response", heading="Inside")
        for word in message.message.split():
            entry.stream(content=word + " ")

    blocking = hub.agent("blocking")

    @blocking.on_message
    def block(ctx, message):
        while not Path(message.message).exists():
            time.sleep(0.01)
        ctx.log.log("response", content="awake")
"""


def test_an_agent_is_served_inside_the_hub(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "served_for_test.py").write_text(SERVED)
    hub = HubProcess(tmp_path, record="memory")
    hub.options = ["--app", "served_for_test:setup"]
    with hub:
        assert hub.json("health")["agents"] == ["blocking", "inside"]
        slow = hub.json("new", "--agent", "blocking")["id"]
        hub.run("send", slow, str(tmp_path / "release"))
        id = hub.json("new", "--agent", "inside")["id"]
        done = hub.run("send", id, "one two three", "--wait")
        assert "one two three" in done.stdout
        assert not any(entry["content"] == "awake" for entry in hub.json("show", slow)["entries"])
        hub.run("send", id, "fail", "--wait")
        shown = hub.json("show", id)
        assert shown["document"]["run"]["status"] == "failed"
        assert [e["type"] for e in shown["entries"]] == ["user", "response", "user", "error"]
        (tmp_path / "release").touch()
        wait_until(lambda: any(entry["content"] == "awake" for entry in hub.json("show", slow)["entries"]))


def test_a_run_inside_the_hub_is_waited_for_at_its_end_but_not_for_ever(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "served_for_test.py").write_text(SERVED)
    hub = HubProcess(tmp_path, HUB_DRAIN_SECONDS="30")
    hub.options = ["--app", "served_for_test:setup"]
    with hub:
        waiting = {name: hub.json("new", "--agent", "blocking")["id"] for name in ("first", "second")}
        hub.run("send", waiting["first"], str(tmp_path / "first"))
        wait_until(lambda: hub.json("show", waiting["first"])["document"]["running"])
        assert hub.running is not None
        hub.running.process.send_signal(signal.SIGTERM)
        wait_until(lambda: "draining" in hub.run("health").stdout)
        (tmp_path / "first").touch()
        assert hub.running.process.wait(10) == 0
        hub.start()
        assert hub.json("show", waiting["first"])["document"]["run"]["status"] == "finished"

        hub.run("send", waiting["second"], str(tmp_path / "second"))
        wait_until(lambda: hub.json("show", waiting["second"])["document"]["running"])
        hub.json("drain", "--seconds", "0.5")
        assert hub.running.process.wait(15) == 0
        hub.start()
        assert hub.json("show", waiting["second"])["document"]["run"]["status"] == "interrupted"


def test_the_example_of_the_readme(tmp_path: Path) -> None:
    text = (ROOT / "hub" / "agent" / "README.md").read_text().partition("## Inside the hub")[2]
    found = re.search(r"```python\n(.*?)```", text, re.DOTALL)
    assert found is not None
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "shouting.py").write_text(found[1])
    hub = HubProcess(tmp_path, record="memory")
    hub.options = ["--app", "shouting:setup"]
    with hub:
        id = hub.json("new", "--agent", "shouter")["id"]
        answer = hub.json("send", id, "hello", "--wait")
        assert (answer["run"]["status"], answer["entries"][-1]["content"]) == ("finished", "HELLO")
        assert hub.stop() == 0
