"""The WebSocket of a kernel, which is opened again when the connection is lost."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from itertools import chain, repeat

from websockets.asyncio.client import ClientConnection

from cloche.kernelspec.gateway import Gateway, GatewayError

_PAUSES = (0.1, 0.3, 1)
_LONGEST_PAUSE = 3
_IDLE_SECONDS = 60


class Link:
    """The connection of one client to a kernel."""

    def __init__(self, gateway: Gateway, kernel_id: str, patience: float, is_needed: Callable[[], bool]) -> None:
        self._gateway = gateway
        self._kernel_id = kernel_id
        self._patience = patience
        self._is_needed = is_needed
        # Names this client, so that the gateway sends it what it missed when it comes back.
        self._session = uuid.uuid4().hex
        self._socket: asyncio.Future[ClientConnection] = asyncio.get_running_loop().create_future()
        self._asked = asyncio.Event()
        self.connections = 0
        """How often the connection has been opened."""

    async def sockets(self) -> AsyncIterator[ClientConnection]:
        """Opens a connection, and a further one each time that the caller has done with the last.

        Raises `GatewayError` if requests wait and the kernel has ended, or does not answer for as long as the patience.
        """
        while True:
            socket = await self._open()
            self.connections += 1
            self._socket.set_result(socket)
            try:
                yield socket
            finally:
                self._socket = asyncio.get_running_loop().create_future()
                await socket.close()

    async def socket(self) -> ClientConnection:
        """Returns the open connection, or the next one."""
        self._asked.set()
        return await asyncio.shield(self._socket)

    async def _open(self) -> ClientConnection:
        give_up_at: float | None = None
        for pause in chain(_PAUSES, repeat(_LONGEST_PAUSE)):
            opened = await self._try_to_open()
            if not isinstance(opened, GatewayError):
                return opened
            if not self._is_needed():
                give_up_at = None
                await self._wait_until_asked()
                continue
            now = time.monotonic()
            give_up_at = give_up_at or now + self._patience
            if opened.is_final or now >= give_up_at:
                raise opened
            await asyncio.sleep(pause)
        raise AssertionError("the pauses have no end")

    async def _try_to_open(self) -> ClientConnection | GatewayError:
        try:
            return await self._gateway.open_channels(self._kernel_id, self._session)
        except GatewayError as error:
            return error

    async def _wait_until_asked(self) -> None:
        self._asked.clear()
        # Another class than `TimeoutError` in Python 3.10.
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._asked.wait(), _IDLE_SECONDS)
