"""Notifications: what of semantics 18 is this layer's."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from hub import AgentContext, InvalidRequest, InvalidValue, NotificationManager, UnknownType, register_secret
from hub.agent.alone import AloneLink
from hub.agent.registry import Registry
from tests.agent.record_link import RecordLink


def test_18_one_manager_made_on_first_use(registry: Registry) -> None:
    assert registry.notifications is None
    manager = AgentContext.get_notification_manager()
    assert isinstance(manager, NotificationManager)
    assert AgentContext.get_notification_manager() is manager


def test_18_send() -> None:
    manager = AgentContext.get_notification_manager()
    ctx = AgentContext(set_current=True)
    sent = manager.send_notification("info", "Message", "Title", "Detail", 20, 5, "group", "n1")
    assert manager.notifications == [sent]
    assert sent.output() | {"created_at": "", "version": 1} == {
        "id": "n1",
        "type": "info",
        "title": "Title",
        "message": "Message",
        "detail": "Detail",
        "priority": 20,
        "display_time": 5,
        "group": "group",
        "context": ctx.id,
        "created_at": "",
        "expires_at": None,
        "read": False,
        "version": 1,
    }
    plain = manager.send_notification("warning", "M")
    assert (plain.title, plain.detail, plain.priority, plain.display_time, plain.group) == ("", "", 10, 3, "")
    assert plain.id
    assert plain.id != sent.id


def test_18_wrong_ones() -> None:
    manager = AgentContext.get_notification_manager()
    with pytest.raises(UnknownType):
        manager.send_notification("other", "M")
    with pytest.raises(InvalidValue):
        manager.send_notification("info", None)  # type: ignore[arg-type]
    with pytest.raises(InvalidRequest):
        manager.send_notification("info", "M", priority=True)
    with pytest.raises(InvalidRequest):
        manager.send_notification("info", "M", display_time=-1)
    with pytest.raises(InvalidRequest):
        manager.send_notification("info", "M", expires_at="tomorrow")
    assert manager.notifications == []


def test_18_the_same_id_updates_and_makes_unread() -> None:
    manager = AgentContext.get_notification_manager()
    first = manager.send_notification("progress", "1 %", id="p")
    manager.mark_read(["p", "unknown"])
    assert manager.unread() == []
    second = manager.send_notification("progress", "2 %", id="p")
    assert manager.unread() == [second]
    assert second.created_at == first.created_at
    manager.mark_read()
    assert manager.unread() == []


def test_18_the_oldest_go_and_readers_stay_right() -> None:
    manager = AgentContext.get_notification_manager()
    seen: dict[str, object] = {}
    cursor = 0
    for number in range(260):
        manager.send_notification("info", str(number), id=f"n{number}")
        if number % 37 == 0:
            changes, cursor = manager.since(cursor)
            seen = {id: n for id, n in (seen | changes).items() if n is not None}
            assert list(seen.values()) == manager.notifications
    assert [n.id for n in manager.notifications] == [f"n{number}" for number in range(160, 260)]
    manager.clear("n200")
    changes, cursor = manager.since(cursor)
    assert changes["n200"] is None
    assert manager.since(cursor) == ({}, cursor)


def test_18_expiry() -> None:
    now = [datetime(2026, 1, 1, tzinfo=UTC)]
    registry = Registry(AloneLink(lambda: now[0].timestamp()))
    manager = NotificationManager(lambda: registry.link)
    manager.send_notification("info", "M", id="short", expires_at=now[0] + timedelta(seconds=5))
    manager.send_notification("info", "M", id="long")
    assert [n.id for n in manager.notifications] == ["short", "long"]
    now[0] += timedelta(seconds=5)
    assert [n.id for n in manager.notifications] == ["long"]
    assert manager.get("short") is None
    assert manager.since(2)[0] == {"short": None}


def test_18_at_a_hub_it_is_a_notice(registry: Registry) -> None:
    link = RecordLink()
    registry.bind(link)
    register_secret("hunter2")
    manager = AgentContext.get_notification_manager()
    manager.send_notification("error", "hunter2", id="n", context="one")
    manager.clear("n")
    notice = link.notices[0]
    assert notice.pop("key")
    assert notice == {
        "id": "n",
        "type": "error",
        "title": "",
        "message": "***",
        "detail": "",
        "priority": 10,
        "display_time": 3,
        "group": "",
        "context": "one",
    }
    assert link.notices[1] == {"cleared": "n"}
