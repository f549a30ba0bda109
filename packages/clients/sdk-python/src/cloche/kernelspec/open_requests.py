"""Requests of Jupyter that the kernel has not answered yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cloche.kernelspec.front_end import FrontEnd, FrontEndMessage


@dataclass
class Request:
    """A request, and how often the connection had been opened when it was sent; 0 while it waits for a connection."""

    message: FrontEndMessage
    connection: int = 0


class OpenRequests:
    """Sends replies to where their requests came from, and answers those whose replies are lost."""

    def __init__(self, front_end: FrontEnd) -> None:
        self._front_end = front_end
        self._requests: dict[str, Request] = {}

    def __bool__(self) -> bool:
        return bool(self._requests)

    def add(self, message: FrontEndMessage) -> Request:
        """Remembers a message; one that is no request has no reply."""
        request = Request(message)
        if message.header["msg_type"].endswith("_request"):
            self._requests[message.header["msg_id"]] = request
        return request

    async def reply(self, channel: str, parent: str, parts: list[bytes]) -> None:
        """Sends a reply, or a request for input, to the client that sent the request."""
        request = self._requests.get(parent) if channel == "stdin" else self._requests.pop(parent, None)
        if request:
            await self._front_end.send(channel, request.message.idents, parts)

    def end(self, parent: str) -> None:
        """Forgets a request that the kernel has done with, whether it has a reply or not."""
        self._requests.pop(parent, None)

    async def fail(self, name: str, reason: str, before: int | None = None) -> None:
        """Answers requests with an error: all, or those sent before a connection was opened."""
        for id, request in list(self._requests.items()):
            if before is None or 0 < request.connection < before:
                del self._requests[id]
                await self._fail(request.message, {"ename": name, "evalue": reason, "traceback": [f"{name}: {reason}"]})

    async def _fail(self, message: FrontEndMessage, error: Mapping[str, Any]) -> None:
        kind = message.header["msg_type"]
        if kind == "execute_request":
            await self._write("iopub", [b"error"], "error", error, message)
        reply = {"status": "error", "execution_count": 0, **error}
        await self._write(message.channel, message.idents, kind.replace("_request", "_reply"), reply, message)
        await self._write("iopub", [b"status"], "status", {"execution_state": "idle"}, message)

    async def _write(
        self, channel: str, idents: list[bytes], kind: str, content: Mapping[str, Any], request: FrontEndMessage
    ) -> None:
        _, parts = self._front_end.write(kind, content, request.header)
        await self._front_end.send(channel, idents, parts)
