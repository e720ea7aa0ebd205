"""Row topics: who is asked, and who gets a row."""

from __future__ import annotations

from hub.core.position import Position
from hub.core.requests import Role
from hub.node.rights import Identity
from hub.node.rows import RowTopic
from tests.node.support import KeptOutbox

AT = Position("e", 1)


def joined(topic: RowTopic, identity: Identity) -> KeptOutbox:
    outbox = KeptOutbox()
    topic.join(outbox, identity)
    return outbox


async def test_a_row_reaches_its_audience_and_is_asked_once_a_group() -> None:
    topic = RowTopic("contexts")
    ann = [joined(topic, Identity("ann", Role.USER)) for _ in range(3)]
    bob = joined(topic, Identity("bob", Role.USER))
    op = joined(topic, Identity("op", Role.OPERATOR))
    agents = [joined(topic, Identity(f"bot{n}", Role.AGENT, ("a*",))) for n in range(3)]
    other = joined(topic, Identity("bot", Role.AGENT, ("b*",)))
    asked: list[Identity] = []

    def sees(identity: Identity) -> bool:
        asked.append(identity)
        return identity.sees("anns", "ann")

    topic.send("anns", AT, {"id": "anns"}, "ann", sees)
    for outbox in (*ann, op, *agents):
        assert outbox.of("row") == [{"topic": "contexts", "id": "anns", "version": "e:1", "row": {"id": "anns"}}]
    assert bob.events == other.events == []
    assert len(asked) <= 4, "once a group, and not once a reader"
    topic.send("anns", AT, None, "ann", sees)
    assert op.of("row")[-1]["row"] is None


async def test_leaving() -> None:
    topic = RowTopic("contexts")
    identity = Identity("ann", Role.USER, ("x*",))
    first, second = joined(topic, identity), joined(topic, identity)
    for _ in range(2):
        topic.leave(first, identity)
    topic.send("c", AT, {}, "ann", lambda identity: True)
    assert first.events == []
    assert len(second.events) == 1
    topic.leave(second, identity)
    topic.leave(second, Identity("stranger", Role.USER))
    assert not topic._rooms
    assert not topic._identities
    assert not topic._patterned


async def test_everybody() -> None:
    topic = RowTopic("notices")
    readers = [joined(topic, Identity(f"u{n}", role)) for n, role in enumerate(Role)]
    topic.send_everybody("n", AT, {"id": "n"})
    assert all(len(reader.of("row")) == 1 for reader in readers)
