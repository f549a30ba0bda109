"""The failures of a call: `ClocheError`, its families, and those that arise in the client."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class ClocheError(Exception):
    """
    A failed call. Each code of the service has a class of its own; a family such as `StateError` catches several.

    Compare `code` or the class, never the message:

    >>> try:
    ...     cloche.sandboxes.create(ttl_ms=7_200_000)
    ... except SandboxTtlExceededError as error:
    ...     print(error.code, error.details)
    sandbox_ttl_exceeded {'max_ttl_ms': 3600000}
    """

    code: str
    """Code of the error catalogue, or of the client."""
    message: str
    """What is wrong and what to do, for people."""
    status: int | None
    """HTTP status; `None` if there was no response."""
    request_id: str | None
    """Identifies the request in the log of the service."""
    details: Any
    """Facts for programs, with names in snake case; `None` if there are none."""
    idempotency_key: str | None
    """Key of the operation. With it, the operation can be repeated without executing it twice."""
    retry_after_ms: float | None
    """Milliseconds after the response at which the service wants the request repeated."""

    def __init__(
        self,
        code: str,
        message: str,
        *,
        status: int | None = None,
        request_id: str | None = None,
        details: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
        retry_after_ms: float | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.status = status
        self.request_id = request_id
        self.details = details
        self.idempotency_key = idempotency_key
        self.retry_after_ms = retry_after_ms

    def __str__(self) -> str:
        where = f" (request {self.request_id})" if self.request_id else ""
        return f"{self.code}: {self.message}{where}"

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (type(self), self.__dict__)


def _restore(kind: type[ClocheError], fields: dict[str, Any]) -> ClocheError:
    error = kind.__new__(kind, fields["message"])
    error.__dict__.update(fields)
    return error


class RequestError(ClocheError):
    """The request is wrong, or names what does not exist. It fails again until it changes."""


class AccessError(ClocheError):
    """The key is unknown, or may not do this."""


class StateError(ClocheError):
    """The state of the resource, or an earlier request, does not allow the operation."""


class LimitError(ClocheError):
    """A quota, a rate or a disk is used up."""


class ServiceError(ClocheError):
    """The service failed, or cannot serve the request now."""


class TransportError(ClocheError):
    """No complete response arrived. The operation may have been executed."""


class UnreachableError(TransportError, ConnectionError):
    """All attempts failed to connect, or the connection broke."""


class DeadlineExceededError(TransportError, TimeoutError):
    """The time of the call passed without a response."""


class StreamInterruptedError(TransportError):
    """A stream ended before its last event."""


class UnexpectedResponseError(ServiceError):
    """The response is not one of Cloche's; often it comes from another server."""


class MissingApiKeyError(RequestError):
    """No key was given, and `CLOCHE_API_KEY` is not set."""


class InvalidOptionsError(RequestError, ValueError):
    """An option or an id is invalid and cannot be sent."""


class PackingFailedError(RequestError):
    """A directory cannot be packed: a file cannot be read, a link leads out of it, or it has too many entries."""


CLIENT_ERRORS: dict[str, type[ClocheError]] = {
    "unreachable": UnreachableError,
    "deadline_exceeded": DeadlineExceededError,
    "stream_interrupted": StreamInterruptedError,
    "unexpected_response": UnexpectedResponseError,
    "missing_api_key": MissingApiKeyError,
    "invalid_options": InvalidOptionsError,
    "packing_failed": PackingFailedError,
}
