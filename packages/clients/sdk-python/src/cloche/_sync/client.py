"""The synchronous client of every operation, with retries. The handles (`cloche.sandboxes`, …) are built on it."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

import httpx

from cloche._core.errors import ClocheError
from cloche._core.failures import error_of, error_of_response
from cloche._core.model import Model, decode, part
from cloche._core.options import resolve_options, selection_options
from cloche._core.request import PreparedRequest, Source, prepare_request
from cloche._core.retry import Deadline, Outage, retry_kind, retry_pause_s
from cloche._generated.version import VERSION
from cloche._sync.pages import Page
from cloche._sync.runtime import Result, body_of, pause

if TYPE_CHECKING:
    from typing_extensions import Self, TypedDict, Unpack

    class ClientOptions(TypedDict, total=False):
        """Options of a client."""

        url: str | None
        """Default: `CLOCHE_URL`, then `http://127.0.0.1:4680`."""
        api_key: str | None
        """Default: `CLOCHE_API_KEY`."""
        timeout_ms: float
        """
        Milliseconds that a call may take with all its attempts, on top of the operation's own time, such as the
        `timeout_ms` of a run. Default: 60000.
        """
        max_retries: int
        """Attempts after the first. Default: 4."""
        retry_delay_ms: float
        """Milliseconds before the first retry; doubled for each further one, with jitter. Default: 100."""
        transport: httpx.BaseTransport | None
        """Replaces how requests are sent."""


T = TypeVar("T")
M = TypeVar("M", bound=Model)

# No response of the service is larger.
_MAX_JSON_BYTES = 512 * 1024 * 1024
_MAX_ERROR_BYTES = 1024 * 1024


class ApiClient:
    """
    Calls every operation of the service by its id.

    >>> answer = cloche.call("getSandbox", params={"sandboxId": sandbox.id})
    >>> answer["sandbox"]["id"] == sandbox.id
    True
    """

    def __init__(self, **options: Unpack[ClientOptions]) -> None:
        """Takes the address and the key of the service. Raises `MissingApiKeyError`, `InvalidOptionsError`."""
        transport = options.get("transport")
        self._options = resolve_options(options)
        self._http = httpx.Client(
            headers={"user-agent": f"cloche-python/{VERSION}"},
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=20),
            # Loading the certificates of authorities takes longer than a call.
            verify=self._options.url.startswith("https:"),
            transport=transport,
        )

    @property
    def url(self) -> str:
        """URL of the service, without a trailing slash."""
        return self._options.url

    @property
    def api_key(self) -> str:
        """The key that calls are made with."""
        return self._options.api_key

    def close(self) -> None:
        """Closes all connections. Idempotent."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def call(
        self,
        operation_id: str,
        *,
        params: Mapping[str, str] | None = None,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        headers: Mapping[str, str | None] | None = None,
        **rest: Any,
    ) -> Any:
        """
        Calls an operation and returns its JSON as dictionaries. All attempts carry the same Idempotency-Key, so it is
        executed once.

        Raises `ClocheError` with the code of the service, or one of the client's own.
        """
        request = prepare_request(
            operation_id, self._options, params=params, query=query, body=body, headers=headers, **rest
        )
        return self._attempt(request, self._read_json, Deadline(request.timeout_ms))

    def one(self, kind: type[M], name: str, operation_id: str, **request: Any) -> M:
        """Calls an operation, and returns the model that the response has under `name`."""
        answer = self.call(operation_id, **request)
        return decode(kind, part(answer, name))

    def many(self, kind: type[M], operation_id: str, **request: Any) -> list[M]:
        """Calls an operation whose list has no pages, and returns the models."""
        answer = self.call(operation_id, **request)
        return decode(list[kind], part(answer, "data"))

    def page(
        self, kind: type[M], operation_id: str, show: Callable[[M], Any] | None = None, **request: Any
    ) -> Page[Any]:
        """Calls an operation whose list has pages. `show` makes the entries of the list from the models."""
        query = {**request.pop("query", {}), **selection_options(request)}

        def read(cursor: str | None) -> Page[Any]:
            answer = self.call(operation_id, query={**query, "cursor": cursor}, **request)
            models = decode(list[kind], part(answer, "data"))
            return Page(models if show is None else map(show, models), part(answer, "nextCursor"), read)

        return read(query.get("cursor"))

    def whole(self, kind: type[M], operation_id: str, **request: Any) -> M:
        """Calls an operation whose response is a model as it is."""
        return decode(kind, self.call(operation_id, **request))

    @contextmanager
    def download(self, operation_id: str, **request: Any) -> Generator[httpx.Response, None]:
        """Calls an operation whose response is bytes. The time limit is that of each wait for bytes."""
        prepared = prepare_request(operation_id, self._options, **request)
        response = self._attempt(prepared, self._read_head, Deadline(prepared.timeout_ms))
        try:
            yield response
        finally:
            response.close()

    @contextmanager
    def opened_stream(self, prepared: PreparedRequest) -> Generator[httpx.Response, None]:
        """Opens a stream of events, with retries until it is open."""
        response = self._attempt(prepared, self._read_event_head, Deadline(prepared.timeout_ms))
        try:
            yield response
        finally:
            response.close()

    def prepare(self, operation_id: str, **request: Any) -> PreparedRequest:
        """Prepares a request for `opened_stream`."""
        return prepare_request(operation_id, self._options, **request)

    def outage(self, max_retries: int | None) -> Outage:
        """Returns an object that decides from errors whether the service is only briefly unreachable."""
        return Outage(self._options.max_retries if max_retries is None else max_retries)

    def put(self, url: str, headers: Mapping[str, str], source: Source, size_bytes: int) -> None:
        """Sends bytes to a URL that the service has signed. It may belong to a bucket, so the key is not sent."""
        origin = "{0.scheme}://{0.netloc}".format(urlsplit(url))
        with httpx.Client(timeout=self._options.timeout_ms / 1000) as http:
            try:
                # Buckets refuse a body whose size is not known in advance.
                sized = {**headers, "content-length": str(size_bytes)}
                response = http.put(url, headers=sized, content=body_of(source.open()))
            except (httpx.HTTPError, httpx.InvalidURL) as cause:
                raise error_of("unreachable", f"{origin} broke the upload off; try again.") from cause
        if not response.is_success:
            message = f"{origin} refused the upload with status {response.status_code}: {response.text[:200]}"
            raise error_of("unexpected_response", message, status=response.status_code)

    def _attempt(
        self,
        request: PreparedRequest,
        read: Callable[[httpx.Response, PreparedRequest, Deadline], Result[T]],
        deadline: Deadline,
    ) -> T:
        retries = waits = 0
        while True:
            try:
                return read(self._send(request, deadline), request, deadline)
            except httpx.TimeoutException as cause:
                if isinstance(cause, httpx.ConnectTimeout) and deadline.has(0.001):
                    error = self._unreachable(request, cause)
                else:
                    raise deadline_exceeded(request) from cause
            except (httpx.TransportError, httpx.StreamError, httpx.InvalidURL, httpx.DecodingError) as cause:
                error = self._unreachable(request, cause)
            except ClocheError as failure:
                error = failure
            kind = retry_kind(error, request.is_repeatable)
            if kind == "never" or (kind == "again" and retries >= request.max_retries):
                raise error
            pause_s = retry_pause_s(error, retries if kind == "again" else waits, self._options.retry_delay_ms)
            if not deadline.has(pause_s):
                raise error
            retries, waits = (retries + 1, waits) if kind == "again" else (retries, waits + 1)
            pause(pause_s)

    def _send(self, request: PreparedRequest, deadline: Deadline) -> httpx.Response:
        """Sends the request once, and returns when the response begins. Redirects are not followed."""
        sent = self._http.build_request(
            request.operation.method,
            request.url,
            headers=request.headers,
            content=body_of(request.body()),
            timeout=deadline.remaining_s,
        )
        return self._http.send(sent, stream=True, follow_redirects=False)

    def _read_json(self, response: httpx.Response, request: PreparedRequest, deadline: Deadline) -> Any:
        body = self._read_body(response, request, deadline, _MAX_JSON_BYTES)
        if response.is_success:
            try:
                return json.loads(body)
            except (ValueError, RecursionError):
                pass
        raise self._failure(response, body, request)

    def _read_head(self, response: httpx.Response, request: PreparedRequest, deadline: Deadline) -> Any:
        if response.is_success or response.status_code == 304:
            return response
        raise self._failure(response, self._read_body(response, request, deadline, _MAX_ERROR_BYTES), request)

    def _read_event_head(self, response: httpx.Response, request: PreparedRequest, deadline: Deadline) -> Any:
        if response.is_success and response.headers.get("content-type", "").startswith("text/event-stream"):
            return response
        raise self._failure(response, self._read_body(response, request, deadline, _MAX_ERROR_BYTES), request)

    def _read_body(
        self, response: httpx.Response, request: PreparedRequest, deadline: Deadline, most_bytes: int
    ) -> bytes:
        """Reads a body whole. A body that is larger counts as one that is not the service's."""
        body = bytearray()
        try:
            for chunk in response.iter_bytes():
                body += chunk
                if not deadline.has(0):
                    raise deadline_exceeded(request)
                if len(body) > most_bytes:
                    raise self._failure(response, b"", request)
        finally:
            response.close()
        return bytes(body)

    def _failure(self, response: httpx.Response, body: bytes, request: PreparedRequest) -> ClocheError:
        origin = "{0.scheme}://{0.netloc}".format(urlsplit(self.url))
        return error_of_response(origin, response.status_code, response.headers, body, request.idempotency_key)

    def _unreachable(self, request: PreparedRequest, cause: Exception) -> ClocheError:
        why = str(cause) or type(cause).__name__
        message = f"Cloche cannot be reached at {self.url} ({why}); see that it runs there, or set CLOCHE_URL."
        error = error_of("unreachable", message, idempotency_key=request.idempotency_key)
        error.__cause__ = cause
        return error


def deadline_exceeded(request: PreparedRequest) -> ClocheError:
    """Returns the error of a call whose time has passed."""
    message = f"{request.operation.id} had no answer in time; it may have been done all the same."
    return error_of("deadline_exceeded", message, idempotency_key=request.idempotency_key)
