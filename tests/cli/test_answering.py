"""answer: people answer questions of agents from a terminal, and show and watch say that there are some."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.cli.worker import connected
from tests.support import HubProcess


async def ask_open(hub: HubProcess, context: str, *questions: tuple[str, str, list[Any] | None]) -> None:
    async with connected(hub.url, hub.token) as client:
        await client.ok("context.create", id=context)
        ops = [
            {"op": "ask.open", "id": id, "question": question, **({"options": options} if options else {})}
            for id, question, options in questions
        ]
        await client.ok("apply", context=context, ops=ops)


async def document(hub: HubProcess, context: str) -> dict[str, Any]:
    found: dict[str, Any] = (await asyncio.to_thread(hub.json, "show", context))["document"]
    return found


@pytest.mark.parametrize(
    ("given", "options", "value"),
    [("yes", ["yes", "no"], "yes"), ("2", [1, 2], 2), ('{"a":1}', [{"a": 1}], {"a": 1}), ("2", None, "2")],
)
async def test_an_answer_is_an_option_or_a_text(
    shared_hub: HubProcess, given: str, options: list[Any] | None, value: Any
) -> None:
    context = f"answer-{abs(hash((given, str(options))))}"
    await ask_open(shared_hub, context, ("q1", "Which one?", options))
    shown = await asyncio.to_thread(shared_hub.run, "show", context)
    assert "Which one?" in shown.stdout
    reply = await asyncio.to_thread(shared_hub.json, "answer", context, given)
    assert reply["ask"] == "q1"
    assert (await document(shared_hub, context))["asks"]["q1"]["value"] == value
    late = await asyncio.to_thread(shared_hub.run, "answer", context, given, "--ask", "q1")
    assert (late.returncode, "[already_answered]" in late.stderr) == (1, True)
    none = await asyncio.to_thread(shared_hub.run, "answer", context, given)
    assert "no question" in none.stderr


async def test_of_several_one_is_named(shared_hub: HubProcess) -> None:
    await ask_open(shared_hub, "answer-two", ("q1", "One?", None), ("q2", "Two?", ["yes"]))
    unnamed = await asyncio.to_thread(shared_hub.run, "answer", "answer-two", "yes")
    assert (unnamed.returncode, "name one by --ask, q1 or q2" in unnamed.stderr) == (1, True)
    wrong = await asyncio.to_thread(shared_hub.run, "answer", "answer-two", "no", "--ask", "q2")
    assert "[invalid_value]" in wrong.stderr
    await asyncio.to_thread(shared_hub.json, "answer", "answer-two", "yes", "--ask", "q2")
    asks = (await document(shared_hub, "answer-two"))["asks"]
    assert [asks[id]["status"] for id in ("q1", "q2")] == ["open", "answered"]
