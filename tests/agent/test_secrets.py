"""Secrets are masked before anything leaves the process: semantics 16."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub import AgentContext, InvalidRequest, forget_secret, register_secret
from hub.agent import secret
from hub.agent.secret import TELLING, WITHHELD, Secrets, Tail


def test_16_everywhere_in_an_entry() -> None:
    register_secret("s3cret", "other one")
    ctx = AgentContext()
    entry = ctx.log.log("info", "the s3cret", "a s3cret b other one", {"s3cret": [{"x": "s3crets3cret"}]}, y="s3cret!")
    assert entry.heading == "the ***"
    assert entry.content == "a *** b ***"
    assert entry.kvps == {"***": [{"x": "******"}], "y": "***!"}
    assert ctx.progress["text"] == "the ***"
    entry.update(heading="s3cret", content="s3cret.", z={"s3cret": "s3cret"})
    assert (entry.heading, entry.content, entry.kvps["z"]) == ("***", "***.", {"***": "***"})
    ctx.set_progress("s3cret")
    assert ctx.progress["text"] == "***"
    AgentContext.log_to_all("info", "s3cret", "s3cret", k="s3cret")
    assert "s3cret" not in str(ctx.log.entries(1)[0].output())
    forget_secret("s3cret")
    assert ctx.log.log("info", content="s3cret").content == "s3cret"


def test_16_a_secret_in_two_pieces() -> None:
    register_secret("hunter2")
    ctx = AgentContext()
    entry = ctx.log.log("agent")
    entry.stream("my password is hun")
    assert entry.content == "my password is "
    entry.stream("ter")
    entry.stream("2, do not tell")
    assert entry.content == "my password is ***, do not tell"
    entry.stream(" hu")
    entry.stream("man")
    assert entry.content == "my password is ***, do not tell human"


async def test_16_what_is_held_back_is_let_go() -> None:
    register_secret("hunter2")
    ctx = AgentContext()
    entry = ctx.log.log("agent")
    entry.stream("a hu")
    await ctx.checkpoint()
    assert entry.content == "a "
    await ctx.flush()
    assert entry.content == "a hu"
    entry.stream(" hunt")
    entry.update(heading="Heading")
    await ctx.flush()
    assert entry.content == "a hu "  # this much could well be the secret
    entry.stream("s")
    assert entry.content == "a hu hunts"
    entry.stream("hun")
    entry.update(content="new")
    await ctx.flush()
    assert entry.content == "new"
    entry.stream(" hunt")
    ctx.close()
    assert entry.content == "new hunt"
    ctx = AgentContext()

    def work() -> None:
        ctx.log.log("agent", id="in-the-run").stream("the hunt")

    await ctx.run_task(work).result()
    ended = ctx.log.get("in-the-run")
    assert ended is not None
    assert ended.content == "the hunt"


@pytest.mark.parametrize("cut", range(1, len("sk-SECRET-1")))
async def test_16_nothing_that_waits_between_two_pieces_shows_a_secret(cut: int) -> None:
    secret = "sk-SECRET-1"
    register_secret(secret)
    ctx = AgentContext()
    for wait in (ctx.checkpoint, ctx.flush):
        entry = ctx.log.log("agent")
        for piece in ("key: ", secret[:cut], secret[cut:], " end"):
            entry.stream(piece)
            await wait()
            entry.update(heading=piece)
        shown = "" if wait == ctx.checkpoint or cut >= TELLING else secret[:cut]
        assert entry.content == f"key: {shown}*** end"


def test_16_a_secret_that_begins_in_a_whole_text() -> None:
    register_secret("hunter2")
    ctx = AgentContext()
    entry = ctx.log.log("agent", content="password: hunte")
    entry.stream("r2!")
    assert entry.content == "password: ***!"
    entry.update(content="password: h")
    assert entry.content == "password: h"
    entry.stream("unter2!")
    assert entry.content == "password: h***!"


def test_16_when_masking_fails_the_content_is_withheld(monkeypatch: pytest.MonkeyPatch) -> None:
    register_secret("hunter2")
    ctx = AgentContext()
    entry = ctx.log.log("agent")

    def broken(*_: object) -> object:
        raise RuntimeError

    monkeypatch.setattr(Secrets, "spans", broken)
    shown = ctx.log.log("info", "hunter2", "hunter2", {"a": "hunter2"})
    entry.stream("hunter2")
    assert (shown.heading, shown.content, shown.kvps) == (WITHHELD, WITHHELD, {WITHHELD: WITHHELD})
    assert entry.content == WITHHELD


def test_16_secrets_are_texts() -> None:
    for wrong in ("", None, 7):
        with pytest.raises(InvalidRequest):
            register_secret(wrong)  # type: ignore[arg-type]
    assert not secret.SECRETS


def test_16_errors_are_masked() -> None:
    register_secret("hunter2")
    ctx = AgentContext()

    def work() -> None:
        raise ValueError("bad password hunter2")

    with pytest.raises(ValueError):
        ctx.run_task(work).result_sync(5)
    assert "hunter2" not in str(ctx.document()) + str([entry.output() for entry in ctx.log.entries()])


@given(
    st.lists(st.text("ab", min_size=1, max_size=5), min_size=1, max_size=3),
    st.lists(st.text("abc", max_size=4), max_size=6),
)
def test_16_pieces_are_masked_as_the_whole(secrets: list[str], pieces: list[str]) -> None:
    known = Secrets()
    known.register(*secrets)
    tail = Tail(known)
    shown = "".join([*map(tail.piece, pieces), tail.rest()])
    assert _one_mask(shown) == _one_mask(known.mask("".join(pieces)))


def _one_mask(text: str) -> str:
    return re.sub(r"\*+", "*", text)
