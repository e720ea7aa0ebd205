"""Tokens: JSON Web Tokens signed with the hub's secret, and the identities that they stand for."""

from __future__ import annotations

import hmac
import os
import secrets
import time
from collections import OrderedDict
from pathlib import Path
from typing import Any

import jwt

from hub.core.errors import InvalidRequest, StartError, Unauthorized
from hub.core.requests import Role
from hub.core.values import clean_text
from hub.node.rights import Identity

ALGORITHM = "HS256"
_KNOWN = 4_096
"""Tokens that are known to be good, by their text: who comes back, after a restart with thousands of others, need not be
worked out again."""


_EXPIRED = "the token has expired; ask for a new one"
_SUB = "a token's sub has 1 to 256 characters, none of them half of one"


class Tokens:
    """Makes and reads tokens. ``secret`` is text of at least 32 characters."""

    def __init__(self, secret: str) -> None:
        if len(secret) < 32:
            raise StartError("the secret that signs tokens needs at least 32 characters (HUB_SECRET)")
        self._secret = secret
        self._known: OrderedDict[str, Identity] = OrderedDict()

    @property
    def mark(self) -> str:
        """Tells whether another hub has the same secret, without giving that away."""
        return hmac.digest(self._secret.encode(), b"the secret of a hub", "sha256").hex()[:16]

    def make(self, sub: str, role: Role, *, ctx: tuple[str, ...] = (), ttl: float | None = None) -> str:
        """A token. ``ctx``: patterns of context ids; ``ttl``: seconds until it expires, None is never."""
        if not _can_be_user(sub):
            raise InvalidRequest(_SUB)
        claims: dict[str, Any] = {"sub": sub, "role": str(role), "jti": secrets.token_urlsafe(8)}
        if ctx:
            claims["ctx"] = list(ctx)
        if ttl is not None:
            claims["exp"] = int(time.time() + ttl)
        return jwt.encode(claims, self._secret, algorithm=ALGORITHM)

    def read(self, token: object) -> Identity:
        """The identity that a token stands for. Raises Unauthorized."""
        if not isinstance(token, str) or not token:
            raise Unauthorized("a token is needed: send it as auth {token}, or as 'Authorization: Bearer ...'")
        identity = self._known.get(token)
        if identity is None:
            identity = self._known[token] = self._work_out(token)
            if len(self._known) > _KNOWN:
                self._known.popitem(last=False)
        elif identity.expires_at is not None and identity.expires_at <= time.time():
            del self._known[token]
            raise Unauthorized(_EXPIRED)
        return identity

    def _work_out(self, token: str) -> Identity:
        try:
            claims = jwt.decode(token, self._secret, algorithms=[ALGORITHM], options={"require": ["sub"]})
            role = Role(claims["role"])
        except jwt.ExpiredSignatureError:
            raise Unauthorized(_EXPIRED) from None
        except (jwt.InvalidTokenError, KeyError, ValueError):
            raise Unauthorized("the token is not one of this hub") from None
        if not _can_be_user(claims["sub"]):
            raise Unauthorized(_SUB)
        ctx = claims.get("ctx", [])
        if not isinstance(ctx, list) or not all(isinstance(pattern, str) for pattern in ctx):
            raise Unauthorized("the token's ctx is not a list of patterns")
        return Identity(str(claims["sub"]), role, tuple(ctx), claims.get("exp"), str(claims.get("jti", "")))


def _can_be_user(sub: str) -> bool:
    """Lone surrogates are replaced wherever text comes in: two users must not become one by that."""
    return 1 <= len(sub) <= 256 and clean_text(sub) == sub


def folder_tokens(folder: Path) -> tuple[Tokens, str]:
    """The tokens of a data folder, made at its first start: its secret, and an operator's token in ``DIR/token``.

    ``HUB_SECRET`` goes before the folder's secret. Raises StartError.
    """
    secret = os.environ.get("HUB_SECRET") or _kept(folder / "secret", lambda: secrets.token_urlsafe(32))
    tokens = Tokens(secret)
    token = _kept(folder / "token", lambda: tokens.make("operator", Role.OPERATOR))
    try:
        tokens.read(token)
    except Unauthorized:  # of another secret
        token = tokens.make("operator", Role.OPERATOR)
        _write(folder / "token", token)
    return tokens, token


def _kept(path: Path, make: Any) -> str:
    try:
        text = path.read_text().strip()
    except FileNotFoundError:
        text = ""
    except OSError as error:
        raise StartError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise StartError(f"{path} is damaged: restore it, or remove it and hand out new tokens") from error
    if not text:
        text = make()
        _write(path, text)
    return text


def _write(path: Path, text: str) -> None:
    try:
        new = path.with_name(path.name + ".new")
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(text + "\n")
        new.replace(path)
    except OSError as error:
        raise StartError(f"cannot write {path}: {error.strerror}") from error
