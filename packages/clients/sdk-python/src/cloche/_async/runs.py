"""Runs of code."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Literal, Protocol

from cloche._async.client import AsyncApiClient
from cloche._async.runtime import AsyncCallback, deliver
from cloche._async.streams import stream_once
from cloche._core.event_reading import RunEventReader
from cloche._core.failures import error_of
from cloche._generated.models import CodeOutput, CodeRun, CodeRunEvent

if TYPE_CHECKING:
    from typing_extensions import TypedDict, Unpack

    from cloche._core.options import RetryOptions

    class ContextRunOptions(RetryOptions, total=False):
        """Options of a run in a context."""

        timeout_ms: float | None
        """Milliseconds after which the run is interrupted and ends with `TimeoutError`. Default: 60000."""
        cwd: str | None
        """Working directory. It must equal that of the context."""
        artifact_policy: Literal["inline_only", "promote"] | None
        """`promote` stores binary and large outputs as artifacts. Default: `inline_only`."""

    class RunOptions(ContextRunOptions, total=False):
        """Options of a run."""

        language: Literal["python", "javascript", "typescript"] | None
        """Default: that of the context, or `python`."""
        context: ContextRef | str | None
        """Context of the run, or its id. Default: the sandbox's default context of the language."""

    class RunCallbacks(TypedDict, total=False):
        """With any of these, output arrives while the code runs."""

        on_stdout: AsyncCallback[str] | None
        on_stderr: AsyncCallback[str] | None
        on_output: AsyncCallback[CodeOutput] | None


class ContextRef(Protocol):
    """A context, as far as a run needs it."""

    @property
    def id(self) -> str:
        """Id of the context."""
        ...

    @property
    def language(self) -> Literal["python", "javascript", "typescript"]:
        """Language of the context."""
        ...


def _run_request(sandbox_id: str, code: str, options: Any) -> dict[str, Any]:
    given: dict[str, Any] = dict(options)
    calls = {name: given.pop(name) for name in ("idempotency_key", "max_retries") if name in given}
    context, language = given.pop("context", None), given.pop("language", None)
    if context is not None:
        given["context_id"] = context if isinstance(context, str) else context.id
    given["language"] = language or (None if isinstance(context, str) else getattr(context, "language", None))
    body = {"code": code, **given, "language": given["language"] or "python"}
    return {"params": {"sandboxId": sandbox_id}, "body": body, **calls}


async def run_code(
    client: AsyncApiClient, sandbox_id: str, code: str, callbacks: RunCallbacks, **options: Unpack[RunOptions]
) -> CodeRun:
    """Runs code to its end. With a callback, the run is streamed, and canceled if the caller does not wait for it."""
    if not any(callbacks.values()):
        return await client.one(CodeRun, "run", "runCode", **_run_request(sandbox_id, code, options))
    async with aclosing(stream_code(client, sandbox_id, code, **options)) as events:
        async for event in events:
            if event.type == "complete":
                return event.data
            if event.type == "stdout":
                await deliver(callbacks.get("on_stdout"), event.data)
            elif event.type == "stderr":
                await deliver(callbacks.get("on_stderr"), event.data)
            elif event.type == "output":
                await deliver(callbacks.get("on_output"), event.data)
    raise error_of("stream_interrupted", "The stream ended without a result.")


def stream_code(
    client: AsyncApiClient, sandbox_id: str, code: str, **options: Unpack[RunOptions]
) -> AsyncGenerator[CodeRunEvent, None]:
    """Yields the events of a run as they happen, `complete` last. Leaving the loop cancels the run."""
    reader: RunEventReader[CodeRunEvent] = RunEventReader(CodeRunEvent)
    request = _run_request(sandbox_id, code, options)
    return stream_once(client, "streamCode", reader, lambda event: event.type == "complete", **request)
