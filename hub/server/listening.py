"""The sockets that a hub listens on."""

from __future__ import annotations

import errno
import os
import socket

from hub.core.errors import StartError

LOOPBACK = ("127.0.0.1", "::1", "localhost")


def bind(host: str, port: int) -> list[socket.socket]:
    """Sockets that are bound to a host's addresses, all at the same port; 0: any free one. Raises StartError."""
    if host not in LOOPBACK and not os.environ.get("HUB_SECRET"):
        raise StartError(
            f"listening on {host} lets others in: set HUB_SECRET (32 characters or more), give everybody "
            "a token of their own with 'session-hub token', and start again"
        )
    sockets: list[socket.socket] = []
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, kind, protocol, _, address in dict.fromkeys(found):
            sock = socket.socket(family, kind, protocol)
            sockets.append(sock)
            sock.setblocking(False)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            try:
                sock.bind((address[0], port, *address[2:]))
            except OSError as error:
                if error.errno != errno.EADDRNOTAVAIL or len(found) == 1:
                    raise
                sockets.pop().close()  # a name has addresses of families that this system may not have
            else:
                port = port or sock.getsockname()[1]
        if not sockets:
            raise OSError(errno.EADDRNOTAVAIL, os.strerror(errno.EADDRNOTAVAIL))
    except OSError as error:
        close(sockets)
        raise _refused(host, port, error) from error
    return sockets


def listen(sockets: list[socket.socket]) -> None:
    """Let connections come. Raises StartError."""
    for sock in sockets:
        try:
            sock.listen(128)
        except OSError as error:
            host, port = sock.getsockname()[:2]
            raise _refused(host, port, error) from error


def close(sockets: list[socket.socket]) -> None:
    """Close them all."""
    for sock in sockets:
        sock.close()


def url_of(host: str, sockets: list[socket.socket]) -> str:
    """Where people and agents reach what listens there."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://{f'[{host}]' if ':' in host else host}:{sockets[0].getsockname()[1]}"


def _refused(host: str, port: int, error: OSError) -> StartError:
    if error.errno == errno.EADDRINUSE:
        return StartError(f"port {port} on {host} is in use; end what uses it, or take another --port")
    return StartError(f"cannot listen on {host}:{port}: {error.strerror}")
