"""AgentContext: one session as agent code sees it, from any thread, wherever its record is."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, suppress
from datetime import datetime
from typing import Any, ClassVar

from hub.agent import current
from hub.agent.asking import Asking
from hub.agent.batch import batch_of, batched
from hub.agent.checks import checked_context_id, checked_context_type, checked_text, checked_user_id, checked_when_busy
from hub.agent.config import AgentConfig, AgentContextType
from hub.agent.ids import generate_id
from hub.agent.link import Link
from hub.agent.log import Log
from hub.agent.log_item import LogItem
from hub.agent.mappings import DataMapping, MetadataMapping, OutputMapping, StateMapping
from hub.agent.message_queue import MessageQueue
from hub.agent.moments import to_datetime, to_text
from hub.agent.notifications import NotificationManager
from hub.agent.registry import ContextsView, Registry, current_registry
from hub.agent.session import SessionContext
from hub.agent.writer import Writer
from hub.core.contexts import ROW_FIELDS
from hub.core.enums import WhenBusy
from hub.core.errors import HubError, InvalidRequest
from hub.core.pointer import own
from hub.core.requests import Create, LogAdd, Remove, Update
from hub.core.values import check

_SHOWN = (*ROW_FIELDS, "metadata", "progress", "log", "run")


class AgentContext(Asking):
    """A session: data, state, log, queue and run control. Thread-safe; every write is seen here at once.

    Building one creates the session. Sessions that exist already come from ``get``, or from ``await hub.open(id)``.
    """

    _contexts: ClassVar[Mapping[str, AgentContext]] = ContextsView()

    def __init__(
        self,
        config: AgentConfig | None = None,
        id: str | None = None,
        name: str | None = None,
        type: AgentContextType | str = AgentContextType.USER,
        created_at: datetime | str | None = None,
        last_message: datetime | str | None = None,
        data: Mapping[str, Any] | None = None,
        output_data: Mapping[str, Any] | None = None,
        log: Log | None = None,
        paused: bool = False,
        set_current: bool = False,
        user_id: str | None = None,
        replace: bool = False,
        *,
        agent: str | None = None,
        when_busy: WhenBusy | str | None = None,
        state: Mapping[str, Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
        link: Link | None = None,
    ) -> None:
        """Create a session and register it. Raises Exists (a live one has the id and ``replace`` is not set), UnknownType,
        InvalidRequest, InvalidValue, TooLarge.

        ``created_at``, ``last_message``: datetimes or ISO 8601 text. ``replace`` ends a live session of that id first.
        ``set_current`` makes it the current context. ``agent`` answers its messages, ``when_busy`` says what becomes of those
        that come while it works. ``link``: where it is kept, if not where this process's new contexts go.
        """
        config = config or AgentConfig()
        registry = current_registry()
        link = link or registry.link
        body = Create(
            context="",
            name=checked_text(name or "", "name"),
            type=checked_context_type(type),
            agent=agent if agent is not None else config.agent,
            when_busy=checked_when_busy(when_busy if when_busy is not None else config.when_busy),
            user_id=checked_user_id(user_id),
            state=check(state or {}),
            output=check(output_data or {}),
            data=check(data or {}),
            metadata=check(metadata or {}),
            paused=bool(paused),
            created_at=to_text(created_at) or link.now(),
            last_message=to_text(last_message),
        )
        body.context = registry.claim(checked_context_id(id), replace=replace)
        try:
            writer = Writer(body.context, link, config.limits)
            writer.submit_first(body, no=registry.next_no())
            self._build(registry, writer, config, log)
            before = registry.add(self)
        except BaseException:
            registry.release(body.context)
            raise
        if before is not None:
            before._close("replaced")
        writer.link.attach(writer, create=True, replace=replace)
        if set_current:
            AgentContext.set_current(self.id)

    def _build(self, registry: Registry, writer: Writer, config: AgentConfig, log: Log | None) -> None:
        self.id = writer.id
        self.config = config
        self.writer = writer
        self._data = DataMapping(writer)
        self._output_data = OutputMapping(writer)
        self._state = StateMapping(writer)
        self._metadata = MetadataMapping(writer)
        self.session_context = SessionContext(writer)
        self.message_queue = MessageQueue(writer)
        self._registry = registry
        self._set_up_running()
        self._set_up_asking()
        document = writer.read().document
        writer.created_at = document["created_at"]
        registry.saw_no(document["no"])
        self.log = log or Log()
        entries = self.log.attach(self)
        if entries:
            writer.apply(entries, 200 * len(entries))
        writer.on_closed = self._closed

    @classmethod
    def opened(cls, registry: Registry, writer: Writer, config: AgentConfig | None = None) -> AgentContext:
        """The facade of a session that exists, whose state ``writer`` has. For ``hub.open``."""
        context = cls.__new__(cls)
        context._build(registry, writer, config or AgentConfig(limits=writer.view.limits), None)
        return context

    def __repr__(self) -> str:
        return f"<AgentContext {self.id}>"

    # the registry

    @staticmethod
    def generate_id() -> str:
        """8 characters of ``A-Za-z0-9`` from a cryptographic source."""
        return generate_id()

    @staticmethod
    def get(id: str) -> AgentContext | None:
        """The context with that id, if it is live in this process."""
        return current_registry().get(id)

    @staticmethod
    def all() -> list[AgentContext]:
        """The contexts that are live in this process, oldest first."""
        return current_registry().all()

    @staticmethod
    def first() -> AgentContext | None:
        """The oldest live context: the smallest (created_at, id)."""
        return current_registry().first()

    @staticmethod
    def remove(id: str) -> AgentContext | None:
        """Remove a session: its task ends, its viewers are told, nothing of it is kept. Returns it, or None."""
        context = current_registry().get(id)
        if context is None:
            return None
        if batch_of(context.writer) is not None:
            raise InvalidRequest("a context cannot be removed in the middle of a batch of its own")
        context._registry.drop(context)
        with suppress(HubError):  # it was closed already
            context.writer.submit(Remove(context=id))
        context._close("removed")
        return context

    @staticmethod
    def use(id: str | None) -> AgentContext | None:
        """Make a context the current one and return it. None, or an unknown id, clears and returns None."""
        context = current_registry().get(id) if id else None
        AgentContext.set_current(context.id if context is not None else None)
        return context

    @staticmethod
    def current() -> AgentContext | None:
        """The current context of this task or thread, if it is live."""
        id = current.current_id()
        return current_registry().get(id) if id else None

    @staticmethod
    def set_current(id: str | None) -> None:
        """Make an id that of the current context; None clears."""
        if id:
            current.set_context_data(current.CONTEXT_ID, id)
        else:
            current.delete_context_data(current.CONTEXT_ID)

    @staticmethod
    def log_to_all(
        type: str,
        heading: str = "",
        content: str = "",
        kvps: Mapping[str, Any] | None = None,
        id: str | None = None,
        **pairs: Any,
    ) -> list[LogItem]:
        """Add an entry to every live context. Returns those of the contexts that are live in this process.

        With a hub, live is what some node has in memory, sleeping contexts are not woken, and an agent reaches those that
        its token covers. What this process wrote earlier comes before it. The entries have one id; in a process of its own
        none are returned, since the hub makes them.
        Raises UnknownType, InvalidValue.
        """
        registry = current_registry()
        add: LogAdd = Log.addition(type, heading, content, kvps, id or generate_id() + generate_id(), pairs)
        assert add.id is not None
        entries = []
        before = [done for context in registry.all() if (done := context.writer.settling()) is not None]
        for context in registry.all():
            if context.writer.link.decides:
                context.writer.add_by_broadcast(add)
            if context.writer.link.names_broadcasts:
                entries.append(context.log.expected(add))
        registry.link.broadcast(add.id, add, before)
        return entries

    @staticmethod
    def get_notification_manager() -> NotificationManager:
        """The process's manager of notifications, made on first use."""
        registry = current_registry()
        if registry.notifications is None:
            registry.notifications = NotificationManager(lambda: registry.link)
        return registry.notifications

    # what it is

    def _field(self, name: str) -> Any:
        with self.writer.lock:
            return own(self.writer.read().document[name])

    @property
    def name(self) -> str:
        """What people call it."""
        return str(self._field("name"))

    @name.setter
    def name(self, name: str) -> None:
        name = checked_text(name, "name")
        self.writer.submit(Update(context=self.id, name=name), 200 + len(name))

    @property
    def type(self) -> AgentContextType:
        """Whom it is for."""
        return AgentContextType(self._field("type"))

    @property
    def no(self) -> int:
        """One more than the highest that its process had seen; not unique across processes."""
        return int(self._field("no"))

    @property
    def user_id(self) -> str | None:
        """Whose session it is; None: operators', and of tokens that name it."""
        user_id: str | None = self._field("user_id")
        return user_id

    @property
    def agent(self) -> str | None:
        """The agent that answers its messages; None is the hub's default agent."""
        agent: str | None = self._field("agent")
        return agent

    @agent.setter
    def agent(self, agent: str) -> None:
        self.writer.submit(Update(context=self.id, agent=agent))

    @property
    def when_busy(self) -> WhenBusy:
        """What becomes of messages that come while the agent works."""
        return WhenBusy(self._field("when_busy"))

    @when_busy.setter
    def when_busy(self, when_busy: WhenBusy | str) -> None:
        self.writer.submit(Update(context=self.id, when_busy=checked_when_busy(when_busy)))

    @property
    def created_at(self) -> datetime:
        """When it was made, in UTC."""
        return to_datetime(self.writer.created_at)

    created = created_at

    @property
    def last_message(self) -> datetime:
        """When the last message came, in UTC."""
        return to_datetime(self._field("last_message"))

    @property
    def progress(self) -> dict[str, Any]:
        """``{"text", "entry": an entry's id or None, "active"}``."""
        return self.log.progress

    def set_progress(self, text: str, active: bool = True, entry: LogItem | str | None = None) -> None:
        """Say what is going on. ``entry``: the one that it belongs to."""
        self.log.set_progress(text, active, entry)

    @property
    def version(self) -> str:
        """The confirmed position, ``epoch:seq``."""
        with self.writer.lock:
            self.writer.read()
            return str(self.writer.view.base)

    def document(self) -> dict[str, Any]:
        """All that viewers see but the log, as a dict of one's own, own writes included."""
        with self.writer.lock:
            document: dict[str, Any] = own(self.writer.read().document)
            return document

    def output(self) -> dict[str, Any]:
        """The output data with the core fields over it, JSON-serialisable: each core field equals the document's."""
        with self.writer.lock:
            document = self.writer.read().document
            shown: dict[str, Any] = own({**document["output"], **{name: document[name] for name in _SHOWN}})
            return shown

    # data

    @property
    def data(self) -> DataMapping:
        """Private data, a live mapping: for the context's agents and operators, never for viewers."""
        return self._data

    @data.setter
    def data(self, value: Mapping[str, Any]) -> None:
        self._data.replace(value)

    @property
    def output_data(self) -> OutputMapping:
        """What the context has to show for itself, a live mapping."""
        return self._output_data

    @output_data.setter
    def output_data(self, value: Mapping[str, Any]) -> None:
        self._output_data.replace(value)

    @property
    def state(self) -> StateMapping:
        """Session state, a live mapping with operations that are safe against other writers."""
        return self._state

    @state.setter
    def state(self, value: Mapping[str, Any]) -> None:
        self._state.replace(value)

    @property
    def metadata(self) -> MetadataMapping:
        """Metadata, a live mapping."""
        return self._metadata

    @metadata.setter
    def metadata(self, value: Mapping[str, Any]) -> None:
        self._metadata.replace(value)

    def set_data(self, key: str, value: Any) -> None:
        """Keep a private value: seen by agents and operators only. Raises InvalidValue."""
        self.data[key] = value

    def get_data(self, key: str, default: Any = None) -> Any:
        """A copy of a private value, or ``default``."""
        return self.data.get(key, default)

    def update_data(self, other: Any = (), /, **more: Any) -> None:
        """Set several private values in one change."""
        self.data.update(other, **more)

    def delete_data(self, key: str) -> None:
        """Delete a private value; nothing happens if there is none."""
        self.data.pop(key, None)

    def set_output_data(self, key: str, value: Any) -> None:
        """Keep a value of the output. Raises InvalidValue."""
        self.output_data[key] = value

    def get_output_data(self, key: str, default: Any = None) -> Any:
        """A copy of a value of the output, or ``default``."""
        return self.output_data.get(key, default)

    def update_output_data(self, other: Any = (), /, **more: Any) -> None:
        """Set several values of the output in one change."""
        self.output_data.update(other, **more)

    def delete_output_data(self, key: str) -> None:
        """Delete a value of the output; nothing happens if there is none."""
        self.output_data.pop(key, None)

    # writing together, and the end

    def batch(self) -> AbstractContextManager[None]:
        """``with ctx.batch():`` what is written in the block stands or falls together, and viewers see it as one change.
        An exception drops all of it."""
        return batched(self.writer, current.run_of(self.id))

    @property
    def closed(self) -> str | None:
        """Why it takes no more writes here (``removed``, ``exists`` ...), or None."""
        return self.writer.closed_by

    def close(self) -> None:
        """Let go of it in this process; it lives on at the hub. What is written already is still sent."""
        self.log.release()
        self._registry.drop(self)
        self._close("closed")

    def _close(self, reason: str) -> None:
        with self.writer.lock:
            self.writer.closed_by = self.writer.closed_by or reason
        self._stop_tasks()
        self.writer.link.detach(self.writer)

    def _closed(self, reason: str) -> None:
        self._registry.drop(self)
        self._stop_tasks()
