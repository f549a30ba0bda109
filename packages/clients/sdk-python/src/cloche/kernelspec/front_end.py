"""The ZeroMQ sockets at which Jupyter talks to a kernel on its own machine."""
# pyzmq and jupyter_client have types that are incomplete.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, cast

import zmq
import zmq.asyncio
from jupyter_client.session import DELIM, Session

ROUTERS = ("shell", "control", "stdin")


@dataclass(frozen=True)
class FrontEndMessage:
    """A message of Jupyter whose signature is right."""

    channel: str
    idents: list[bytes]
    header: dict[str, Any]
    content: dict[str, Any]
    parts: list[bytes]
    """Header, parent header, metadata, content and buffers as they were sent."""


class FrontEnd:
    """The sockets of a connection file."""

    def __init__(self, connection: Mapping[str, Any]) -> None:
        key = str(connection.get("key", "")).encode()
        if not key:
            raise ValueError("The connection file has no key, so every user of the machine could send messages.")
        self._session = Session(key=key, signature_scheme=connection["signature_scheme"])
        self._context = zmq.asyncio.Context()
        self._sockets = {name: self._bind(zmq.ROUTER, connection, name) for name in (*ROUTERS, "hb")}
        self._sockets["iopub"] = self._bind(zmq.PUB, connection, "iopub")

    @classmethod
    def of_file(cls, path: Path) -> FrontEnd:
        """Opens the sockets of a connection file."""
        return cls(json.loads(path.read_text()))

    def __enter__(self) -> FrontEnd:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # What was sent last has a second to leave.
        self._context.destroy(linger=1000)

    async def receive(self, channel: str) -> FrontEndMessage:
        """Returns the next message. Drops what has a wrong signature, or was received before."""
        while True:
            frames = await self._sockets[channel].recv_multipart()
            try:
                # Bytes, because the frames are.
                idents, rest = cast("tuple[list[bytes], list[bytes]]", self._session.feed_identities(frames))
                message = self._session.deserialize(rest)
            except Exception:
                # Its sender does not have the key: it must not learn why.
                continue
            return FrontEndMessage(channel, idents, message["header"], message["content"], rest[1:])

    async def send(self, channel: str, idents: Sequence[bytes], parts: Sequence[bytes]) -> None:
        """Signs and sends the parts of a message."""
        signature = self._session.sign(list(parts[:4]))
        await self._sockets[channel].send_multipart([*idents, DELIM, signature, *parts])

    def write(self, kind: str, content: Any = None, parent: dict[str, Any] | None = None) -> tuple[str, list[bytes]]:
        """Returns the id and the parts of a message that neither Jupyter nor the gateway wrote."""
        message = self._session.msg(kind, content, parent)
        names = ("header", "parent_header", "metadata", "content")
        return message["msg_id"], [self._session.pack(message[name]) for name in names]

    async def echo_heartbeats(self) -> None:
        """Answers heartbeats, which say that this process lives."""
        while True:
            await self._sockets["hb"].send_multipart(await self._sockets["hb"].recv_multipart())

    def _bind(self, kind: int, connection: Mapping[str, Any], channel: str) -> zmq.asyncio.Socket:
        socket = self._context.socket(kind)
        # Outputs wait for a slow reader. By default, ZeroMQ drops those after the thousandth.
        socket.sndhwm = 0
        transport, ip, port = connection["transport"], connection["ip"], connection[f"{channel}_port"]
        socket.bind(f"{transport}://{ip}{'-' if transport == 'ipc' else ':'}{port}")
        return socket
