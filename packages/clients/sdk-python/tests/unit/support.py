"""A server on this machine that answers as a test tells it, and clients of it."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from cloche import Cloche

Answer = Callable[[socket.socket], None]

SANDBOX: dict[str, Any] = {
    **{name: f"{name}_1" for name in ("id", "orgId", "projectId", "templateId", "templateVersionId")},
    "status": "ready",
    "templateSlug": "python-node",
    "templateVersion": "1",
    "ttlMs": 1000,
    "metadata": {},
    "expiresAt": "2030-01-01T00:00:00Z",
    "networkPolicy": {"mode": "unrestricted"},
    "resources": {"cpu": 1, "memoryMb": 1, "diskMb": 1, "pids": 1},
    "pause": {"onExpiry": False, "memory": "prefer", "wake": "requests", "wakeTtlMs": 1000, "retainMs": 60_000},
    "createdAt": "2030-01-01T00:00:00Z",
    "sessionStartedAt": "2030-01-01T00:00:00Z",
}
RUN: dict[str, Any] = {
    "sandboxId": "sbx_1",
    "contextId": "cctx_1",
    "language": "python",
    "executionCount": 1,
    "stdout": "",
    "stderr": "",
    "outputs": [],
}


class RawServer:
    """Answers each connection with the next of its answers, the last again and again."""

    def __init__(self, *answers: Answer) -> None:
        self._answers = list(answers)
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self.requests: list[bytes] = []
        self._open: list[socket.socket] = []
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self._open.append(connection)
            answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
            threading.Thread(target=self._answer, args=(connection, answer), daemon=True).start()

    def _answer(self, connection: socket.socket, answer: Answer) -> None:
        try:
            self.requests.append(_read_request(connection))
            answer(connection)
            connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        finally:
            connection.close()

    def close(self) -> None:
        """Closes everything."""
        for each in (self._socket, *self._open):
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            each.close()


def _read_request(connection: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        piece = connection.recv(65536)
        if not piece:
            return data
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    while lengths and len(body) < int(lengths[0].split(b":")[1]):
        body += connection.recv(65536)
    return head + b"\r\n\r\n" + body


def sends(data: bytes) -> Answer:
    """Sends bytes, then closes the connection."""
    return lambda connection: connection.sendall(data)


def silent(connection: socket.socket) -> None:
    """Keeps the connection open until the client or the test closes it, and says nothing."""
    while connection.recv(65536):
        pass


def then_silent(data: bytes) -> Answer:
    """Sends bytes, then nothing more."""

    def answer(connection: socket.socket) -> None:
        connection.sendall(data)
        silent(connection)

    return answer


def response(status: int, body: Any, headers: str = "") -> bytes:
    """Returns a complete response with JSON."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    # The client must not use the connection again, because the server is about to close it.
    fields = f"content-type: application/json\r\ncontent-length: {len(content)}\r\nconnection: close\r\n{headers}"
    return f"HTTP/1.1 {status} X\r\n{fields}\r\n".encode() + content


def failing(code: str, status: int, headers: str = "", **details: Any) -> bytes:
    """Returns a complete error of the service."""
    error = {"code": code, "message": "no", "requestId": "req_1", **({"details": details} if details else {})}
    return response(status, {"error": error}, headers)


def stream(*events: Any) -> bytes:
    """Returns the head of a stream and some of its events. What is bytes is sent as it is."""
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n\r\n"
    return head + b"".join(each if isinstance(each, bytes) else frame(each) for each in events)


def frame(event: Any) -> bytes:
    """Returns one event of a stream."""
    identity = f"id: {event['seq']}\n" if "seq" in event else ""
    return f"{identity}event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()


@contextmanager
def served(*answers: Answer, **options: Any) -> Iterator[tuple[RawServer, Cloche]]:
    """Starts a server and a client of it that retries at once."""
    server = RawServer(*answers)
    try:
        with Cloche(url=server.url, api_key="clk_test", retry_delay_ms=1, **options) as client:
            yield server, client
    finally:
        server.close()


def idempotency_keys(server: RawServer) -> list[str]:
    """Returns the keys of all requests that the server has received."""
    lines = [line for request in server.requests for line in request.decode().lower().split("\r\n")]
    return [line.split(": ")[1] for line in lines if line.startswith("idempotency-key:")]
