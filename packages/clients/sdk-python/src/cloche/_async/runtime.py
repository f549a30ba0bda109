"""Techniques of the asynchronous client that have no equivalent in the synchronous one."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Callable, Generator
from contextlib import aclosing
from types import TracebackType
from typing import IO, Any, Generic, TypeVar, Union, cast

import anyio
import anyio.to_thread
import httpx
from httpx_sse import EventSource

from cloche._core.errors import ClocheError
from cloche._core.request import Pieces

T = TypeVar("T")
# What a call of this client returns.
AsyncResult = Awaitable[T]
# Receives values as they arrive. A coroutine is awaited before the next value.
AsyncCallback = Callable[[T], Union[Awaitable[Any], Any]]

_CHUNK_BYTES = 256 * 1024
_FINISH_S = 5.0


async def pause(seconds: float) -> None:
    """Waits."""
    await anyio.sleep(seconds)


async def deliver(callback: AsyncCallback[T] | None, value: T) -> None:
    """Calls the callback, if there is one."""
    outcome = None if callback is None else callback(value)
    if inspect.isawaitable(outcome):
        await outcome


async def finish(work: Callable[[], Awaitable[Any]]) -> None:
    """Does what a failure requires, also in a canceled task. The failure is the error to report."""
    with anyio.move_on_after(_FINISH_S, shield=True):
        try:
            await work()
        except ClocheError:
            pass


async def in_thread(work: Callable[[], T]) -> T:
    """Does what takes long without the network, such as packing a directory."""
    return await anyio.to_thread.run_sync(work)


async def body_of(pieces: Pieces | None) -> bytes | AsyncIterator[bytes] | None:
    """Returns bytes as the HTTP client takes them."""
    if pieces is None or isinstance(pieces, bytes):
        return pieces
    if isinstance(pieces, str):
        return pieces.encode()
    return _chunks(pieces)


async def _chunks(pieces: Any) -> AsyncIterator[bytes]:
    if isinstance(pieces, AsyncIterable):
        async for piece in cast("AsyncIterable[bytes]", pieces):
            yield piece
    elif hasattr(pieces, "read"):
        file = cast("IO[bytes]", pieces)
        while piece := await anyio.to_thread.run_sync(file.read, _CHUNK_BYTES):
            yield piece
    else:
        for piece in pieces:
            yield piece


async def messages_of(response: httpx.Response) -> AsyncGenerator[str, None]:
    """Yields the data of each message of a stream of events."""
    async with aclosing(EventSource(response).aiter_sse()) as messages:
        async for message in messages:
            if message.data:
                yield message.data


class Opened(Generic[T]):
    """What is being created: await it, or use it with `async with`."""

    def __init__(self, opening: Awaitable[T]) -> None:
        self._opening = opening
        self._opened: Any = None

    def __await__(self) -> Generator[Any, None, T]:
        return self._opening.__await__()

    async def __aenter__(self) -> T:
        self._opened = await self._opening
        return await self._opened.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._opened.__aexit__(kind, error, trace)


def opened(opening: Awaitable[T]) -> Opened[T]:
    """Lets the caller choose between `await` and `async with`."""
    return Opened(opening)
