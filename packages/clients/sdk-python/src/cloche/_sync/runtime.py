"""Techniques of the synchronous client; the counterpart of the module of this name in `_async`."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator
from typing import IO, Annotated, Any, TypeVar, cast

import httpx
from httpx_sse import EventSource

from cloche._core.errors import ClocheError
from cloche._core.request import Pieces

T = TypeVar("T")
# What a call of this client returns.
Result = Annotated[T, "result"]
# Receives values as they arrive.
Callback = Callable[[T], Any]
# What is being created is there at once.
Opened = Annotated[T, "opened"]

_CHUNK_BYTES = 256 * 1024


def pause(seconds: float) -> None:
    """Waits."""
    time.sleep(seconds)


def deliver(callback: Callback[T] | None, value: T) -> None:
    """Calls the callback, if there is one."""
    if callback is not None:
        callback(value)


def finish(work: Callable[[], Any]) -> None:
    """Does what a failure requires. The failure is the error to report."""
    try:
        work()
    except ClocheError:
        pass


def in_thread(work: Callable[[], T]) -> T:
    """Does what takes long without the network, such as packing a directory."""
    return work()


def body_of(pieces: Pieces | None) -> bytes | Iterator[bytes] | None:
    """Returns bytes as the HTTP client takes them."""
    if pieces is None or isinstance(pieces, bytes):
        return pieces
    if isinstance(pieces, str):
        return pieces.encode()
    return _chunks(pieces)


def _chunks(pieces: Any) -> Iterator[bytes]:
    if hasattr(pieces, "read"):
        file = cast("IO[bytes]", pieces)
        while piece := file.read(_CHUNK_BYTES):
            yield piece
    else:
        yield from pieces


def messages_of(response: httpx.Response) -> Generator[str, None, None]:
    """Yields the data of each message of a stream of events."""
    for message in EventSource(response).iter_sse():
        if message.data:
            yield message.data


def opened(opening: T) -> T:
    """Returns it as it is."""
    return opening
