"""Options of a client and of a call."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from cloche._core.errors import InvalidOptionsError, MissingApiKeyError

if TYPE_CHECKING:
    from datetime import datetime

    from typing_extensions import TypedDict

    class RetryOptions(TypedDict, total=False):
        """What each call takes besides its own arguments."""

        idempotency_key: str | None
        """Key of the operation. Default: a new one, kept over all attempts of the call."""
        max_retries: int | None
        """Attempts after the first. Default: that of the client."""

    class CallOptions(RetryOptions, total=False):
        """What each call takes that has no time limit of its own."""

        timeout_ms: float | None
        """Milliseconds that the call may take with all its attempts. Default: that of the client."""

    class PageOptions(CallOptions, total=False):
        """What each list takes that has pages."""

        limit: int | None
        """Most entries of the page, at most 500. Default: the whole list."""
        cursor: str | None
        """Begins after the page that had this `next_cursor`. The filters must be the same."""

    class SelectionOptions(PageOptions, total=False):
        """What a list takes that is filtered by id and time."""

        id_prefix: str | None
        """Beginning of the id: its prefix, such as `sbx_`, and four characters or more."""
        created_after: datetime | str | None
        """Only what was created after this time."""
        created_before: datetime | str | None
        """Only what was created before this time."""


DEFAULT_URL = "http://127.0.0.1:4680"


@dataclass(frozen=True)
class ClientOptions:
    """Where the service is, and how calls behave."""

    url: str
    api_key: str
    timeout_ms: float
    max_retries: int
    retry_delay_ms: float


def resolve_options(given: Any) -> ClientOptions:
    """Takes what is not given from `CLOCHE_URL` and `CLOCHE_API_KEY`, and checks both."""
    return ClientOptions(
        url=_check_url(given.get("url") or os.environ.get("CLOCHE_URL") or DEFAULT_URL),
        api_key=_check_key(given.get("api_key") or os.environ.get("CLOCHE_API_KEY")),
        timeout_ms=given.get("timeout_ms", 60_000),
        max_retries=given.get("max_retries", 4),
        retry_delay_ms=given.get("retry_delay_ms", 100),
    )


def _check_url(text: str) -> str:
    try:
        parts = urlsplit(text.strip())
        is_http = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        is_http = False
    if not is_http:
        message = f'"{text}" is not an HTTP address; give one such as {DEFAULT_URL}.'
        raise InvalidOptionsError("invalid_options", message)
    return text.strip().split("?", 1)[0].split("#", 1)[0].rstrip("/")


def _check_key(given: str | None) -> str:
    key = (given or "").strip()
    if not key:
        message = "No API key was given; pass `api_key`, or set CLOCHE_API_KEY to the key of your installation."
        raise MissingApiKeyError("missing_api_key", message)
    # Checked here, because a library would report an invalid header with the key in its message.
    if not re.fullmatch(r"[\x21-\x7e]+", key):
        message = "The API key has white space or other than ASCII in it; copy it again."
        raise InvalidOptionsError("invalid_options", message)
    return key


def call_options(given: Any) -> dict[str, Any]:
    """Takes the options of the call out of all keyword arguments of a method."""
    return {name: given.pop(name) for name in ("timeout_ms", "idempotency_key", "max_retries") if name in given}


def selection_options(given: Any) -> dict[str, Any]:
    """Takes the parameters of a page out of the keyword arguments of a list."""
    names = ("id_prefix", "created_after", "created_before", "limit", "cursor")
    return {name: given.pop(name) for name in names if name in given}


def retry_options(given: Any) -> dict[str, Any]:
    """Takes the options of the call out of the keyword arguments of a method that has its own `timeout_ms`."""
    return {name: given.pop(name) for name in ("idempotency_key", "max_retries") if name in given}
