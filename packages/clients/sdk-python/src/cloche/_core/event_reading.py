"""Reads events of streams, however the service or the network ends them."""

from __future__ import annotations

import json
from typing import Any, Generic, TypeVar, cast

from cloche._core.errors import ClocheError
from cloche._core.failures import error_of, error_of_event
from cloche._core.model import decode_any, known_types
from cloche._generated.errors import ERRORS

T = TypeVar("T")


def parse_event(text: str) -> dict[str, Any]:
    """Parses the data of a message."""
    try:
        event: Any = json.loads(text)
    except (ValueError, RecursionError) as cause:
        raise error_of("unexpected_response", "An event of the stream is not JSON.") from cause
    if not isinstance(event, dict) or not isinstance(cast("dict[str, Any]", event).get("type"), str):
        raise error_of("unexpected_response", "An event of the stream has no type.")
    return cast("dict[str, Any]", event)


class EventReader(Generic[T]):
    """Converts the messages of one stream into events of a union. Unknown types are skipped."""

    def __init__(self, union: Any) -> None:
        self._union = union
        self._types = known_types(union)

    def read(self, text: str) -> list[T]:
        """Returns the events that are known to be complete after this message."""
        event = parse_event(text)
        if event["type"] == "error":
            raise error_of_event(event.get("data"))
        return [decode_any(self._union, event)] if event["type"] in self._types else []

    def interrupted(self, cause: BaseException | None) -> ClocheError:
        """Returns the error of a stream that ended before its last event."""
        return interrupted("The stream broke off; continue after its last event.", cause)


class RunEventReader(EventReader[T]):
    """
    Reads the events of a run. An exception of the code may be named like an error code of the service. Only the next
    event tells the two apart: an error of the service is the last event.
    """

    def __init__(self, union: Any) -> None:
        super().__init__(union)
        self._held: dict[str, Any] | None = None

    def read(self, text: str) -> list[T]:
        """Returns the events that are known to be complete after this message."""
        event = parse_event(text)
        if event["type"] not in self._types:
            return []
        held, self._held = self._held, None
        events: list[T] = [] if held is None else [decode_any(self._union, held)]
        decoded = decode_any(self._union, event)
        if event["type"] == "error" and decoded.data.name in ERRORS:
            self._held = event
            return events
        return [*events, decoded]

    def interrupted(self, cause: BaseException | None) -> ClocheError:
        """Returns the error of the service, if it was the last event."""
        if self._held is not None:
            return error_of_event(self._held.get("data"))
        return interrupted("The stream broke off before the result came; the run was canceled, send it again.", cause)


def interrupted(message: str, cause: BaseException | None) -> ClocheError:
    """Returns `stream_interrupted`."""
    error = error_of("stream_interrupted", message)
    error.__cause__ = cause
    return error
