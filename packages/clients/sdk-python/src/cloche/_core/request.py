"""Prepares what all attempts of one logical operation share, including its Idempotency-Key."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import AsyncIterable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import IO, Any, Union, cast
from urllib.parse import quote, urlencode

from cloche._core.errors import InvalidOptionsError
from cloche._core.names import to_wire
from cloche._core.operation import Operation
from cloche._core.options import ClientOptions
from cloche._generated.operations import (
    COMMAND_TIMEOUT_DEFAULT_MS,
    CONTEXT_TIMEOUT_DEFAULT_MS,
    OPERATIONS,
    RUN_TIMEOUT_DEFAULT_MS,
    RUN_TIMEOUT_MAX_MS,
    WAIT_DEFAULT_MS,
)

Pieces = Union[bytes, str, IO[bytes], Iterable[bytes], AsyncIterable[bytes]]
# Bytes to send. A file is sent from where it stands. Pieces can be sent once; a function returns new ones for each
# attempt, so that the upload can be repeated.
UploadBytes = Union[Pieces, Callable[[], Pieces]]


@dataclass(frozen=True)
class PreparedRequest:
    """A request that can be sent any number of times."""

    operation: Operation
    url: str
    headers: dict[str, str]
    body: Callable[[], Pieces | None]
    idempotency_key: str | None
    # Whether sending the request again cannot execute it twice.
    is_repeatable: bool
    # `None`: no limit.
    timeout_ms: float | None
    max_retries: int


def prepare_request(
    operation_id: str,
    options: ClientOptions,
    *,
    params: Mapping[str, str] | None = None,
    query: Mapping[str, Any] | None = None,
    body: Any = None,
    headers: Mapping[str, str | None] | None = None,
    content: UploadBytes | None = None,
    content_type: str = "application/octet-stream",
    timeout_ms: float | None = None,
    idempotency_key: str | None = None,
    max_retries: int | None = None,
) -> PreparedRequest:
    """Prepares a request. Names in `query` and `body` may be in snake case."""
    operation = OPERATIONS[operation_id]
    key = (idempotency_key or str(uuid.uuid4())) if operation.takes_key else None
    sent = {"accept": _ACCEPTED[operation.kind], "authorization": f"Bearer {options.api_key}"}
    sent |= {name: value for name, value in (headers or {}).items() if value is not None}
    wire = None if body is None else to_wire(body)
    payload = None if wire is None else json.dumps(wire, ensure_ascii=False).encode(errors="surrogatepass")
    if payload is not None:
        sent["content-type"] = "application/json"
    if content is not None:
        sent["content-type"] = content_type
    if key is not None:
        sent["idempotency-key"] = _header_value("idempotency_key", key)
    source = None if content is None else source_of(content)
    is_used_up = source is not None and not source.is_repeatable
    wire_query = to_wire(query or {})
    if timeout_ms is None:
        own = _own_time_ms(operation, wire or {}, wire_query)
        timeout_ms = None if own is None else own + options.timeout_ms
    return PreparedRequest(
        operation=operation,
        url=_url(options.url, operation, params or {}, wire_query),
        headers=sent,
        body=(lambda: payload) if source is None else source.open,
        idempotency_key=key,
        is_repeatable=not is_used_up and (operation.method != "POST" or operation.takes_key),
        timeout_ms=timeout_ms,
        max_retries=0 if is_used_up else (options.max_retries if max_retries is None else max_retries),
    )


_ACCEPTED = {"events": "text/event-stream", "bytes": "*/*", "json": "application/json", "socket": "*/*"}


def _own_time_ms(operation: Operation, body: Mapping[str, Any], query: Mapping[str, Any]) -> float | None:
    """Returns how long the operation may take by its own rules before it responds."""
    # The time of an upload depends on its size and the network.
    if operation.uploads:
        return None
    given = body.get("timeoutMs")
    if operation.id in ("runCode", "streamCode"):
        # A context may have its own default, which is not known here.
        return given or (RUN_TIMEOUT_MAX_MS if "contextId" in body else RUN_TIMEOUT_DEFAULT_MS)
    if operation.id == "createContext":
        return given or CONTEXT_TIMEOUT_DEFAULT_MS
    if operation.id in ("createCommand", "runCommand"):
        return 0 if body.get("background") else given or COMMAND_TIMEOUT_DEFAULT_MS
    wait_ms = query.get("waitMs")
    return wait_ms if wait_ms is not None else WAIT_DEFAULT_MS if "waitFor" in query else 0


def _url(base: str, operation: Operation, params: Mapping[str, str], query: Mapping[str, Any]) -> str:
    path = re.sub(r"\{(\w+)\}", lambda match: _segment(match[1], params.get(match[1])), operation.path)
    pairs = {name: _query_value(value) for name, value in query.items() if value is not None}
    return f"{base}{path}?{urlencode(pairs)}" if pairs else f"{base}{path}"


def _query_value(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _segment(name: str, value: str | None) -> str:
    """Encodes a path segment. Refuses an empty or dotted one, which would name another resource."""
    if value is None or re.fullmatch(r"\.{0,2}", value):
        message = f'{name} is "{value or ""}"; give the id that the service gave.'
        raise InvalidOptionsError("invalid_options", message)
    return quote(value, safe="")


def _header_value(name: str, value: str) -> str:
    if not re.fullmatch(r"[\x20-\x7e]+", value):
        raise InvalidOptionsError("invalid_options", f"{name} has other characters than printable ASCII.")
    return value


@dataclass(frozen=True)
class Source:
    """Bytes to send, opened once for each attempt."""

    open: Callable[[], Pieces]
    is_repeatable: bool
    # `None` if it is not known before all bytes are sent.
    size_bytes: int | None


def source_of(content: UploadBytes) -> Source:
    """Finds out whether bytes can be sent again, and how many they are."""
    if isinstance(content, str):
        content = content.encode()
    if isinstance(content, (bytes, bytearray, memoryview)):
        whole = bytes(content)
        return Source(lambda: whole, True, len(whole))
    if callable(content):
        return Source(content, True, None)
    seek = getattr(content, "seek", None)
    if seek is not None and hasattr(content, "read"):
        file = cast("IO[bytes]", content)
        if file.seekable():
            start = file.tell()
            end = file.seek(0, 2)
            file.seek(start)

            def reopened() -> Pieces:
                file.seek(start)
                return file

            return Source(reopened, True, max(0, end - start))
    pieces = content
    return Source(lambda: pieces, False, None)
