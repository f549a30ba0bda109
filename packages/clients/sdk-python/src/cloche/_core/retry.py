"""Decides whether and when to repeat a request, by the error catalogue of the contract."""

from __future__ import annotations

import random
import time
from typing import Literal

from cloche._core.errors import ClocheError
from cloche._generated.errors import RETRYABLE

_LONGEST_PAUSE_MS = 5000
# How long a known service may be unreachable, for example while it restarts.
_MAX_OUTAGE_S = 30.0
OUTAGE_PAUSE_S = 0.1

# `outcome`: an earlier attempt still runs; the same key will be answered with its result.
RetryKind = Literal["never", "again", "outcome"]


def retry_kind(error: ClocheError, is_repeatable: bool) -> RetryKind:
    """Returns what may follow an error. It depends on the code: an exhausted quota and a rate limit are both 429."""
    when_repeatable: RetryKind = "again" if is_repeatable else "never"
    if error.code == "idempotency_request_in_progress":
        return "outcome"
    if error.code == "unreachable":
        return when_repeatable
    if error.code == "unexpected_response":
        # A proxy could not reach the service.
        return when_repeatable if error.status in (429, 502, 503, 504) else "never"
    retryable = RETRYABLE.get(error.code, False)
    return "again" if retryable == "after" else when_repeatable if retryable else "never"


def retry_pause_s(error: ClocheError, retries: int, first_ms: float) -> float:
    """Returns the pause before the next attempt: what the service asks for, or doubling with jitter."""
    if error.retry_after_ms is not None:
        return error.retry_after_ms / 1000
    ceiling = min(first_ms * 2 ** min(retries, 30), _LONGEST_PAUSE_MS)
    return ceiling * (0.5 + random.random() / 2) / 1000


class Deadline:
    """The time of a call. Without a limit, it never passes."""

    def __init__(self, timeout_ms: float | None) -> None:
        self._ends_at = None if timeout_ms is None else time.monotonic() + timeout_ms / 1000

    @property
    def remaining_s(self) -> float | None:
        """Seconds that are left; `None` without a limit."""
        return None if self._ends_at is None else max(0.0, self._ends_at - time.monotonic())

    def has(self, seconds: float) -> bool:
        """Returns whether more than this time is left."""
        return self._ends_at is None or self._ends_at - time.monotonic() > seconds

    def cap_ms(self, most_ms: int) -> int:
        """Returns the milliseconds that are left, at most `most_ms`."""
        remaining = self.remaining_s
        return most_ms if remaining is None else min(most_ms, int(remaining * 1000) + 1)


class Outage:
    """Distinguishes a service that is briefly unreachable from one that was never reached."""

    def __init__(self, max_retries: int) -> None:
        self._max_retries = max_retries
        self._has_responded = False
        self._started_at: float | None = None

    def note_response(self) -> None:
        """Records that the service has responded."""
        self._has_responded = True
        self._started_at = None

    def may_return(self, error: ClocheError) -> bool:
        """Returns whether to try again after a short pause."""
        if not self._has_responded or self._max_retries == 0 or error.code not in ("unreachable", "unavailable"):
            return False
        if self._started_at is None:
            self._started_at = time.monotonic()
        return time.monotonic() - self._started_at < _MAX_OUTAGE_S
