"""Passes messages between Jupyter and a kernel of the gateway."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from enum import Enum, auto
from typing import Any

from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from cloche.kernelspec.front_end import ROUTERS, FrontEnd, FrontEndMessage
from cloche.kernelspec.gateway import Gateway, GatewayError
from cloche.kernelspec.link import Link
from cloche.kernelspec.open_requests import OpenRequests
from cloche.kernelspec.wire import decode, encode

_LOST = "The connection to Cloche was lost, and the result of this request with it. The kernel still has its variables."


class Ending(Enum):
    """Why a bridge has ended."""

    SHUTDOWN = auto()
    RESTART = auto()
    LOST = auto()


class Bridge:
    """The messages of one kernel."""

    def __init__(self, front_end: FrontEnd, gateway: Gateway, kernel_id: str, patience: float) -> None:
        self._front_end = front_end
        self._requests = OpenRequests(front_end)
        self._link = Link(gateway, kernel_id, patience, lambda: bool(self._requests))
        self._ending: asyncio.Future[Ending] = asyncio.get_running_loop().create_future()
        self._probe: str | None = None

    def end(self, ending: Ending) -> None:
        """Ends the bridge. Idempotent."""
        if not self._ending.done():
            self._ending.set_result(ending)

    async def run(self) -> Ending:
        """Passes messages until Jupyter shuts the kernel down, or the kernel is lost."""
        tasks = [asyncio.create_task(self._pass_requests(channel)) for channel in ROUTERS]
        tasks.append(asyncio.create_task(self._pass_answers()))
        try:
            done, _ = await asyncio.wait([*tasks, self._ending], return_when=asyncio.FIRST_COMPLETED)
            for each in done:
                each.result()
            return await self._ending
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _pass_requests(self, channel: str) -> None:
        while True:
            message = await self._front_end.receive(channel)
            if message.header["msg_type"] == "shutdown_request":
                await self._shut_down(message)
                continue
            request = self._requests.add(message)
            socket = await self._link.socket()
            request.connection = self._link.connections
            await _send(socket, channel, message.parts)

    async def _shut_down(self, message: FrontEndMessage) -> None:
        restart = message.content.get("restart") is True
        _, reply = self._front_end.write("shutdown_reply", {"status": "ok", "restart": restart}, message.header)
        await self._front_end.send(message.channel, message.idents, reply)
        self.end(Ending.RESTART if restart else Ending.SHUTDOWN)

    async def _pass_answers(self) -> None:
        try:
            async for socket in self._link.sockets():
                if self._link.connections > 1:
                    await self._probe_for_losses(socket)
                with suppress(ConnectionClosed):
                    async for frame in socket:
                        await self._answer(*decode(frame if isinstance(frame, bytes) else frame.encode()))
        except GatewayError as error:
            await self._requests.fail("KernelLost", f"The kernel in Cloche is lost and starts anew. {error}")
            self.end(Ending.LOST)

    async def _probe_for_losses(self, socket: ClientConnection) -> None:
        """Sends a request that the gateway answers after all before it. Those without a reply by then are lost."""
        self._probe, parts = self._front_end.write("kernel_info_request")
        await _send(socket, "shell", parts)

    async def _answer(self, channel: str, parts: list[bytes]) -> None:
        kind: str = json.loads(parts[0])["msg_type"]
        parent: str = json.loads(parts[1]).get("msg_id", "")
        if channel == "iopub":
            await self._publish(kind, parent, parts)
        elif parent == self._probe:
            await self._requests.fail("ConnectionLost", _LOST, before=self._link.connections)
        else:
            await self._requests.reply(channel, parent, parts)

    async def _publish(self, kind: str, parent: str, parts: list[bytes]) -> None:
        status: dict[str, Any] = json.loads(parts[3]) if kind == "status" else {}
        # The end of this process says it, and Jupyter then starts another one.
        if status.get("execution_state") == "dead":
            return
        await self._front_end.send("iopub", [kind.encode()], parts)
        if status.get("execution_state") == "idle":
            self._requests.end(parent)


async def _send(socket: ClientConnection, channel: str, parts: list[bytes]) -> None:
    # The probe of the next connection finds what is lost.
    with suppress(ConnectionClosed):
        await socket.send(encode(channel, parts))
