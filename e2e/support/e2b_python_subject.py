"""The objects that a call to a Python client of E2B uses. A call is the same for the sync and the async client."""

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Subject:
    """A client, sync or async, with a sandbox of its own."""

    #: Differs between clients, so that their calls do not meet.
    name: str
    box: Any
    sandbox: Any
    template: Any
    secret: Any
    volume: Any


Call = Callable[[Subject], Awaitable[object]]


async def done(result: Any) -> Any:
    """Returns the result of a call to the sync client, and awaits the one of a call to the async client."""
    return await result if inspect.isawaitable(result) else result
