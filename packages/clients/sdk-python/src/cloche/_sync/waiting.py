"""Waits for the end of commands and workspace runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cloche._core.errors import ClocheError
from cloche._core.failures import error_of
from cloche._core.retry import OUTAGE_PAUSE_S, Deadline
from cloche._generated.operations import WAIT_MAX_MS
from cloche._sync.client import ApiClient
from cloche._sync.runtime import Result, pause


def wait_for_end(
    client: ApiClient,
    name: str,
    has_ended: Callable[[], bool],
    refresh: Callable[[int], Result[Any]],
    timeout_ms: float | None,
    max_retries: int | None,
) -> None:
    """
    Waits until the resource has ended. Waits up to 30 seconds for an unreachable service, for example while it
    restarts.

    Raises `DeadlineExceededError` after `timeout_ms`.
    """
    deadline = Deadline(timeout_ms)
    outage = client.outage(max_retries)
    # The service reported the resource, so it was reachable.
    outage.note_response()
    while not has_ended():
        try:
            refresh(deadline.cap_ms(WAIT_MAX_MS))
            outage.note_response()
        except ClocheError as error:
            if not outage.may_return(error):
                raise
            pause(OUTAGE_PAUSE_S)
        if not has_ended() and not deadline.has(0):
            raise error_of("deadline_exceeded", f"{name} still runs after {timeout_ms} ms.")
