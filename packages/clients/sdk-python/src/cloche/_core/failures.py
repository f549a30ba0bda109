"""Constructs the error of a code, and reads errors of responses and streams."""

from __future__ import annotations

import email.utils
import json
import time
from collections.abc import Mapping
from typing import Any, cast

from cloche._core.errors import CLIENT_ERRORS, ClocheError, RequestError, ServiceError
from cloche._core.names import snake_keys
from cloche._generated.errors import ERRORS


def error_of(code: str, message: str, **fields: Any) -> ClocheError:
    """Returns an error of the class of its code. A code that this version does not know has the class of its status."""
    kind = ERRORS.get(code) or CLIENT_ERRORS.get(code)
    if kind is None:
        kind = RequestError if 400 <= (fields.get("status") or 500) < 500 else ServiceError
    return kind(code, message, **fields)


def error_of_response(
    origin: str, status: int, headers: Mapping[str, str], body: bytes, idempotency_key: str | None
) -> ClocheError:
    """Returns the error that a response reports, or `unexpected_response` for one that is not of the service."""
    retry_after_ms = read_retry_after(headers.get("retry-after"))
    request_id = headers.get("x-request-id")
    given = None if status < 400 else _error_in(body)
    if given is not None:
        details = given.get("details")
        return error_of(
            str(given["code"]),
            str(given["message"]),
            status=status,
            request_id=str(given.get("requestId") or request_id or "") or None,
            details=snake_keys(details) if isinstance(details, dict) else None,
            idempotency_key=idempotency_key,
            retry_after_ms=retry_after_ms,
        )
    kind = headers.get("content-type", "no content type")
    message = f"{origin} answered {status} with {kind}, as Cloche does not; see that the address is Cloche's."
    fields: dict[str, Any] = {"status": status, "request_id": request_id, "retry_after_ms": retry_after_ms}
    return error_of("unexpected_response", message, idempotency_key=idempotency_key, **fields)


def _error_in(body: bytes) -> dict[str, Any] | None:
    try:
        parsed: Any = json.loads(body)
    except (ValueError, RecursionError):
        return None
    error: Any = cast(Any, parsed).get("error") if isinstance(parsed, dict) else None
    if not isinstance(error, dict):
        return None
    fields = cast("dict[str, Any]", error)
    return fields if isinstance(fields.get("code"), str) and isinstance(fields.get("message"), str) else None


def error_of_event(data: Any) -> ClocheError:
    """Returns the error of a stream whose last event says that the service failed."""
    fields = cast("dict[str, Any]", data) if isinstance(data, dict) else {}
    return error_of(str(fields.get("name", "internal")), str(fields.get("message", "The service failed.")))


def read_retry_after(header: str | None) -> float | None:
    """Parses `Retry-After`, which has seconds or a date, into milliseconds."""
    if header is None or not header.strip():
        return None
    try:
        return min(max(0.0, float(header)), 86_400.0) * 1000
    except ValueError:
        parsed = email.utils.parsedate_to_datetime(header) if header[:1].isalpha() else None
        return None if parsed is None else max(0.0, parsed.timestamp() - time.time()) * 1000
