"""Tokens that were read before are known by their text: their time is looked at each time, and so many are known."""

from __future__ import annotations

import time
from typing import Any

import pytest

from hub.core.errors import Unauthorized
from hub.core.requests import Role
from hub.server import auth
from hub.server.auth import Tokens

SECRET = "a secret of 32 characters or more"


def test_a_known_token_expires_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = Tokens(SECRET)
    token = tokens.make("ann", Role.USER, ctx=("c*",), ttl=60)
    identity = tokens.read(token)
    assert tokens.read(token) is identity
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 61)
    with pytest.raises(Unauthorized, match="expired"):
        tokens.read(token)


def test_what_is_no_token_is_not_remembered() -> None:
    tokens: Any = Tokens(SECRET)
    token = Tokens("some other secret of 32 characters").make("ann", Role.OPERATOR)
    for bad in (token, token + "x", "x", "", None, 5, tokens.make("ann", Role.USER)[:-2]):
        with pytest.raises(Unauthorized):
            tokens.read(bad)
    assert not tokens._known


def test_so_many_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auth, "_KNOWN", 3)
    tokens: Any = Tokens(SECRET)
    made = [tokens.make(f"u{n}", Role.USER) for n in range(5)]
    assert [tokens.read(token).sub for token in made + made] == [f"u{n}" for n in range(5)] * 2
    assert len(tokens._known) == 3
