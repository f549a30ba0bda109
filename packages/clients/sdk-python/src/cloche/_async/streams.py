"""Streams of events: read once, or resumed where they stopped."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any, TypeVar

import httpx
from httpx_sse import SSEError

from cloche._async.client import AsyncApiClient, deadline_exceeded
from cloche._async.pauses import until_resumed
from cloche._async.runtime import messages_of, pause
from cloche._core.errors import ClocheError
from cloche._core.event_reading import EventReader
from cloche._core.request import PreparedRequest
from cloche._core.retry import OUTAGE_PAUSE_S

T = TypeVar("T")

# An interruption of a stream that was open for this long does not count as a further failure in a row.
_STEADY_S = 5.0


async def stream_once(
    client: AsyncApiClient,
    operation_id: str,
    reader: EventReader[T],
    is_last: Callable[[T], bool],
    on_open: Callable[[], None] = lambda: None,
    **request: Any,
) -> AsyncGenerator[T, None]:
    """Yields the events of a stream up to its last. Leaving the loop disconnects."""
    prepared = client.prepare(operation_id, **request)
    async with aclosing(_read(client, prepared, reader, on_open)) as events:
        async for event in events:
            yield event
            if is_last(event):
                return


async def _read(
    client: AsyncApiClient, prepared: PreparedRequest, reader: EventReader[T], on_open: Callable[[], None]
) -> AsyncGenerator[T, None]:
    """Yields the events of one connection. Ends only by an exception, or when the caller leaves the loop."""
    async with client.opened_stream(prepared) as response:
        on_open()
        try:
            async with aclosing(messages_of(response)) as messages:
                async for message in messages:
                    for event in reader.read(message):
                        yield event
        except httpx.TimeoutException as cause:
            raise deadline_exceeded(prepared) from cause
        except (httpx.HTTPError, httpx.StreamError, SSEError) as cause:
            raise reader.interrupted(cause) from cause
        raise reader.interrupted(None)


async def stream_resumed(
    client: AsyncApiClient,
    operation_id: str,
    make_reader: Callable[[], EventReader[T]],
    seq_of: Callable[[T], int | None],
    is_last: Callable[[T], bool],
    *,
    after_seq: int = 0,
    query: dict[str, Any] | None = None,
    sandbox_id: str | None = None,
    **request: Any,
) -> AsyncGenerator[T, None]:
    """
    Yields the events after `after_seq` up to the last. Resumes an interrupted stream without losing or repeating an
    event, and waits up to 30 seconds for a service that is briefly unreachable. With `sandbox_id`, goes on when that
    sandbox is resumed after a pause.
    """
    failures = 0
    has_been_open = False
    outage = client.outage(request.get("max_retries"))
    while True:
        prepared = client.prepare(operation_id, query={**(query or {}), "after_seq": after_seq}, **request)
        opened_at: list[float] = []

        def on_open(opened_at: list[float] = opened_at) -> None:
            opened_at.append(time.monotonic())
            outage.note_response()

        try:
            async with aclosing(_read(client, prepared, make_reader(), on_open)) as events:
                async for event in events:
                    failures = 0
                    seq = seq_of(event)
                    after_seq = after_seq if seq is None else seq
                    yield event
                    if is_last(event):
                        return
                    outage.note_response()
        except ClocheError as error:
            has_been_open = has_been_open or bool(opened_at)
            if error.code == "sandbox_paused" and has_been_open and sandbox_id is not None:
                await until_resumed(client, sandbox_id, request.get("max_retries"))
                continue
            # A proxy may end each stream that is silent for a minute; that is no failure of the service.
            if opened_at and time.monotonic() - opened_at[0] >= _STEADY_S:
                failures = 0
            if not opened_at and outage.may_return(error):
                await pause(OUTAGE_PAUSE_S)
                continue
            is_interruption = error.code in ("stream_interrupted", "unavailable")
            if not opened_at or not is_interruption or failures >= prepared.max_retries:
                raise
            failures += 1
