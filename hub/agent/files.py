"""Files go over HTTP, and are named by their upload's id."""

from __future__ import annotations

import io
from typing import Any

import aiohttp

from hub.agent.connection import Connection
from hub.core.errors import HubError, Unavailable, error_from_wire


async def upload(connection: Connection, name: str, data: bytes, type: str) -> dict[str, Any]:
    """Give the hub a file. Returns ``{id, name, size, type, expires_at}``. Raises HubError."""
    headers = {"Authorization": f"Bearer {await connection.token()}", "Content-Type": type}
    try:
        async with connection.http.post(
            f"{connection.url}/api/v1/uploads", params={"name": name}, data=io.BytesIO(data), headers=headers
        ) as response:
            if response.status != 200:
                raise await _refusal(response)
            answer: dict[str, Any] = await response.json()
    except (aiohttp.ClientError, TimeoutError) as error:
        raise Unavailable(f"the upload did not get through: {str(error) or 'in time'}") from error
    upload: dict[str, Any] = answer["upload"]
    return upload


async def download(connection: Connection, id: str) -> bytes:
    """A file's content. Raises HubError."""
    headers = {"Authorization": f"Bearer {await connection.token()}"}
    try:
        async with connection.http.get(f"{connection.url}/api/v1/uploads/{id}", headers=headers) as response:
            if response.status != 200:
                raise await _refusal(response)
            return await response.read()
    except (aiohttp.ClientError, TimeoutError) as error:
        raise Unavailable(f"the download did not get through: {str(error) or 'in time'}") from error


async def _refusal(response: aiohttp.ClientResponse) -> HubError:
    try:
        answer = await response.json(content_type=None)
        return error_from_wire(answer["error"])
    except (ValueError, TypeError, KeyError):
        return Unavailable(f"the hub answered {response.status}")
