"""Values that must not be seen: what is registered here is masked in every entry before it leaves the process.

A text that streams is masked across its pieces: the end of a piece that could be the beginning of a secret is held back
until the next one tells.
"""

from __future__ import annotations

import logging
import re
import threading
from typing import Any, Final

from hub.core.errors import InvalidRequest

_log = logging.getLogger(__name__)

MASK: Final = "***"
WITHHELD: Final = "[withheld: it could not be checked for secrets]"
TELLING: Final = 4
"""Characters of a secret's beginning at the end of a whole text from which on that end is held back as well."""


class Secrets:
    """A set of secret texts, and what finds them. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.values: tuple[str, ...] = ()
        """The secrets, longest first."""
        self._any: re.Pattern[str] | None = None

    def register(self, *values: object) -> None:
        """Mask these from now on. Raises InvalidRequest for what is no text, or empty."""
        texts = [value for value in values if isinstance(value, str) and value]
        if len(texts) != len(values):
            raise InvalidRequest("a secret is a text that is not empty")
        with self._lock:
            self._set({*self.values, *texts})

    def forget(self, *values: str) -> None:
        """Mask these no more."""
        with self._lock:
            self._set(set(self.values) - set(values))

    def _set(self, values: set[str]) -> None:
        self._any = re.compile("|".join(re.escape(value) for value in sorted(values))) if values else None
        self.values = tuple(sorted(values, key=len, reverse=True))

    def __bool__(self) -> bool:
        return self._any is not None

    def mask(self, text: str) -> str:
        """``text`` with every secret in it replaced by ``***``; withheld whole if that fails."""
        if self._any is None:
            return text
        try:
            return self._render(text, self.spans(text))
        except Exception:
            _log.exception("masking failed")
            return WITHHELD

    def mask_value(self, value: Any) -> Any:
        """A JSON value with secrets masked in all of its texts, keys too."""
        if self._any is None:
            return value
        if isinstance(value, str):
            return self.mask(value)
        if isinstance(value, dict):
            return {self.mask(key): self.mask_value(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.mask_value(item) for item in value]
        return value

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Where secrets stand, overlapping ones joined."""
        if self._any is None or not self._any.search(text):
            return []
        found: list[tuple[int, int]] = []
        for value in self.values:
            start = text.find(value)
            while start >= 0:
                found.append((start, start + len(value)))
                start = text.find(value, start + 1)
        return _joined(found)

    def _render(self, text: str, spans: list[tuple[int, int]]) -> str:
        pieces, done = [], 0
        for start, end in spans:
            pieces += [text[done:start], MASK]
            done = end
        pieces.append(text[done:])
        return "".join(pieces)

    def beginning(self, text: str, least: int = 1) -> int:
        """How many characters at the end of ``text`` could begin a secret: the most of all secrets."""
        most = 0
        for value in self.values:
            if not text or text[-1] not in value:
                continue
            shortest = min(least, max(1, len(value) // 2))
            for length in range(min(len(value) - 1, len(text)), max(most, shortest - 1), -1):
                if text.endswith(value[:length]):
                    most = length
                    break
        return most


class Tail:
    """The end of a growing text: what is held back of it, and what went out but could still be a secret's beginning."""

    __slots__ = ("_covered", "_gone", "_kept", "_secrets")

    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets
        self._start_over()

    def _start_over(self) -> None:
        self._kept = ""
        self._gone = 0  # how much of _kept went out
        self._covered = 0  # how much of that went out as a mask

    def whole(self, text: str) -> str:
        """What may go out of a text that is given whole. Its end is held back only if it is telling."""
        self._start_over()
        return self._next(text, least=TELLING)

    def piece(self, text: str) -> str:
        """What may go out now that ``text`` follows."""
        return self._next(text, least=1)

    def pause(self) -> str:
        """What may go out while nothing follows. The end is held back only if it is telling."""
        return self._next("", least=TELLING)

    def rest(self) -> str:
        """What is held back, masked; nothing is held back afterwards."""
        text, _ = self._out(self._kept, len(self._kept))
        self._start_over()
        return text

    @property
    def holds(self) -> bool:
        """Whether something is held back."""
        return len(self._kept) > self._gone

    @property
    def remembers(self) -> bool:
        """Whether what was given so far matters for what follows."""
        return bool(self._kept)

    def _next(self, text: str, least: int) -> str:
        text = self._kept + text
        try:
            keep = len(text) - self._secrets.beginning(text)
            out, until = self._out(text, len(text) - self._secrets.beginning(text, least))
            covered = max((end for start, end in self._spans(text) if start < keep < end), default=keep) - keep
        except Exception:
            _log.exception("masking failed")
            self._start_over()
            return WITHHELD
        self._kept, self._gone, self._covered = text[keep:], max(0, until - keep), covered
        return out

    def _spans(self, text: str) -> list[tuple[int, int]]:
        spans = self._secrets.spans(text)
        return _joined([(0, self._covered), *spans]) if self._covered else spans

    def _out(self, text: str, until: int) -> tuple[str, int]:
        """``text[:until]`` masked, without what went out before, and how far it reaches."""
        pieces, done = [], self._gone
        for start, end in self._spans(text):
            if start >= until:
                break
            pieces.append(text[done:start])
            told = start == 0 and self._covered == self._gone > 0  # the mask that went out last is this one
            if end > done and not told:
                pieces.append(MASK)
            done = max(done, end)
        pieces.append(text[done:until])
        return "".join(pieces), max(done, until)


def _joined(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if joined and start < joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


SECRETS: Final = Secrets()
"""The process's secrets."""


def register_secret(*values: str) -> None:
    """Mask these texts in everything that this process logs or announces from now on."""
    SECRETS.register(*values)


def forget_secret(*values: str) -> None:
    """Mask these texts no more."""
    SECRETS.forget(*values)
