"""Identities: what they see, and what their role may ask."""

from __future__ import annotations

import pytest

from hub.core.errors import Forbidden, Unauthorized
from hub.core.requests import Role
from hub.node.rights import ALLOWED, Identity, check_request
from hub.wire.messages import ASKED, BODIES


@pytest.mark.parametrize(
    ("identity", "own", "others", "nobodys"),
    [
        (Identity("op", Role.OPERATOR), True, True, True),
        (Identity("ann", Role.USER), True, False, False),
        (Identity("ann", Role.AGENT), False, False, False),
        (Identity("ann", Role.VIEWER), False, False, False),
        (Identity("ann", Role.USER, ("b*",)), True, True, False),
        (Identity("bot", Role.AGENT, ("*",)), True, True, True),
        (Identity("eve", Role.VIEWER, ("anns",)), True, False, False),
        (Identity("eve", Role.VIEWER, ("ANNS", "ann", "nns")), False, False, False),
        (Identity("", Role.USER), False, False, False),
    ],
)
def test_who_sees_what(identity: Identity, own: bool, others: bool, nobodys: bool) -> None:
    assert identity.sees("anns", "ann") is own
    assert identity.sees("bobs", "bob") is others
    assert identity.sees("free", None) is nobodys


def test_every_request_is_somebodys() -> None:
    every = set(ASKED) | set(BODIES)
    assert ALLOWED[Role.OPERATOR] == every
    assert ALLOWED[Role.VIEWER] < ALLOWED[Role.USER] < ALLOWED[Role.AGENT] <= every
    with pytest.raises(Forbidden):
        check_request(Identity("eve", Role.VIEWER), "apply")


def test_a_tokens_time() -> None:
    identity = Identity("ann", Role.USER, expires_at=10.0)
    identity.check_alive(9.9)
    with pytest.raises(Unauthorized):
        identity.check_alive(10.0)
    Identity("ann", Role.USER).check_alive(1e12)
