"""Terminals of a sandbox."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, cast
from urllib.parse import urlsplit

from cloche._async.client import AsyncApiClient
from cloche._async.pauses import until_resumed
from cloche._async.runtime import Opened, opened
from cloche._core.failures import error_of, error_of_response
from cloche._core.request import PreparedRequest

if TYPE_CHECKING:
    from typing_extensions import Self
    from websockets.asyncio.client import ClientConnection

_MAX_MESSAGE_BYTES = 16 * 1024 * 1024
# `PAUSED_CLOSE_CODE` of the contract.
_PAUSED_CLOSE_CODE = 4410


class AsyncPty:
    """
    A connection to a terminal: yields what it shows, until the shell or the connection ends. Closing it does not end
    the shell, which ends after some time without clients.
    """

    def __init__(self, socket: ClientConnection, pty_id: str) -> None:
        self._socket = socket
        self._id = pty_id
        self._exit_code: int | None = None
        self._was_paused = False

    @property
    def id(self) -> str:
        """Id of the terminal, for joining it later."""
        return self._id

    @property
    def exit_code(self) -> int | None:
        """Exit code of the shell; `None` while it runs, or if the connection ended first."""
        return self._exit_code

    @property
    def was_paused(self) -> bool:
        """Whether a pause of the sandbox has ended the connection. The terminal can be joined again by its id."""
        return self._was_paused

    async def write(self, data: str | bytes) -> None:
        """Sends input to the terminal."""
        await self._socket.send(data.encode() if isinstance(data, str) else data)

    async def resize(self, cols: int, rows: int) -> None:
        """Sets the size of the terminal, in characters."""
        await self._socket.send(json.dumps({"type": "resize", "cols": cols, "rows": rows}))

    async def read(self) -> bytes:
        """Returns the next part of the output; empty at the end."""
        async for data in self:
            return data
        return b""

    async def close(self) -> None:
        """Closes the connection. Idempotent."""
        await self._socket.close()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        from websockets.exceptions import ConnectionClosed

        while self._exit_code is None:
            try:
                data = await self._socket.recv()
            except ConnectionClosed as closed:
                self._was_paused = closed.rcvd is not None and closed.rcvd.code == _PAUSED_CLOSE_CODE
                return
            if isinstance(data, bytes):
                yield data
                continue
            message = _message(data)
            if message.get("type") == "exit":
                self._exit_code = int(message.get("exitCode") or 0)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class AsyncPtys:
    """The terminals of a sandbox."""

    def __init__(self, client: AsyncApiClient, sandbox_id: str) -> None:
        self._client = client
        self._sandbox_id = sandbox_id

    def open(
        self,
        *,
        id: str | None = None,
        cols: int | None = None,
        rows: int | None = None,
        user: Literal["user", "root"] | None = None,
        timeout_ms: float = 60_000,
    ) -> Opened[AsyncPty]:
        r"""
        Opens a terminal with a login shell, or joins the one with this `id`, whose last output is sent first.

        `cols`, `rows`: size in characters, default 80 and 24. `user`: of a new terminal, default `user`.
        `timeout_ms`: milliseconds to wait for the connection.

        Raises `NotFoundError`, `SandboxDestroyedError`, `UnavailableError` if too many are open.

        >>> async with sandbox.pty.open() as pty:
        ...     await pty.write("echo $((6 * 7)); exit 5\n")
        ...     screen = b"".join([data async for data in pty])
        >>> b"42" in screen, pty.exit_code
        (True, 5)
        """
        query = {"pty_id": id, "cols": cols, "rows": rows, "user": user}
        prepared = self._client.prepare(
            "openPty", params={"sandboxId": self._sandbox_id}, query=query, timeout_ms=timeout_ms
        )
        return opened(_open(prepared))

    async def until_resumed(self) -> None:
        """Returns when the sandbox is resumed after a pause that has ended a terminal, or has ended. Wakes nothing."""
        await until_resumed(self._client, self._sandbox_id)


async def _open(request: PreparedRequest) -> AsyncPty:
    # Imported here, because most programs open no terminal.
    from websockets.asyncio.client import connect
    from websockets.exceptions import InvalidStatus, WebSocketException

    # The two libraries type their options differently.
    open_socket: Any = connect
    timeout_s = None if request.timeout_ms is None else request.timeout_ms / 1000
    options: dict[str, Any] = {"max_size": _MAX_MESSAGE_BYTES, "open_timeout": timeout_s, "compression": None}
    headers = {"authorization": request.headers["authorization"]}
    origin = "{0.scheme}://{0.netloc}".format(urlsplit(request.url))
    try:
        url = "ws" + request.url.removeprefix("http")
        socket: ClientConnection = await open_socket(url, additional_headers=headers, **options)
    except InvalidStatus as refused:
        response = refused.response
        fields = {name.lower(): value for name, value in response.headers.raw_items()}
        raise error_of_response(origin, response.status_code, fields, bytes(response.body), None) from refused
    except TimeoutError as cause:
        raise error_of("deadline_exceeded", "The terminal did not open in time.") from cause
    except (OSError, WebSocketException) as cause:
        raise error_of("unreachable", f"Cloche cannot be reached at {origin} ({cause}).") from cause
    try:
        ready = _message(await socket.recv())
        return AsyncPty(socket, str(ready.get("ptyId", "")))
    except WebSocketException as cause:
        raise error_of("unreachable", f"{origin} closed the terminal ({cause}).") from cause
    except BaseException:
        await socket.close()
        raise


def _message(data: str | bytes) -> dict[str, Any]:
    try:
        message: Any = json.loads(data)
    except (ValueError, RecursionError):
        message = None
    if not isinstance(message, dict):
        raise error_of("unexpected_response", "A message of the terminal is not JSON.")
    return cast("dict[str, Any]", message)
