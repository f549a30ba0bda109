"""An operation of the service."""

from __future__ import annotations

from typing import Literal, NamedTuple

Kind = Literal["json", "events", "bytes", "socket"]


class Operation(NamedTuple):
    """An operation, as the contract of the service declares it."""

    id: str
    method: str
    path: str
    # What the response is.
    kind: Kind
    # Whether an `Idempotency-Key` makes it safe to repeat.
    takes_key: bool
    # Whether the request body is bytes.
    uploads: bool
