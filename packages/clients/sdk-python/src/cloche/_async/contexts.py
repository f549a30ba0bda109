"""Contexts: namespaces of one language, in which variables stay from run to run."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Literal

from cloche._async.client import AsyncApiClient
from cloche._async.pages import AsyncPage
from cloche._async.runs import run_code, stream_code
from cloche._async.runtime import AsyncCallback, Opened, opened
from cloche._generated.models import CodeContext, CodeOutput, CodeRun, CodeRunEvent

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from cloche._async.runs import ContextRunOptions, RunCallbacks
    from cloche._core.options import CallOptions, PageOptions, RetryOptions


class AsyncContext:
    """
    A namespace of one language in a sandbox.

    >>> async with sandbox.contexts.create(language="javascript") as context:
    ...     _ = await context.run("let n = 20")
    ...     (await context.run("n + 1")).text
    '21'
    """

    def __init__(self, client: AsyncApiClient, info: CodeContext) -> None:
        self._client = client
        self._info = info

    @property
    def id(self) -> str:
        """Id of the context."""
        return self._info.id

    @property
    def language(self) -> Literal["python", "javascript", "typescript"]:
        """Language of the context."""
        return self._info.language

    @property
    def info(self) -> CodeContext:
        """The last known state."""
        return self._info

    async def run(
        self,
        code: str,
        *,
        on_stdout: AsyncCallback[str] | None = None,
        on_stderr: AsyncCallback[str] | None = None,
        on_output: AsyncCallback[CodeOutput] | None = None,
        **options: Unpack[ContextRunOptions],
    ) -> CodeRun:
        """Runs code in the context, after the runs that were sent to it before. Code that fails does not raise."""
        callbacks: RunCallbacks = {"on_stdout": on_stdout, "on_stderr": on_stderr, "on_output": on_output}
        return await run_code(self._client, self._info.sandbox_id, code, callbacks, context=self, **options)

    def stream(self, code: str, **options: Unpack[ContextRunOptions]) -> AsyncGenerator[CodeRunEvent, None]:
        """Yields the events of a run as they happen. Leaving the loop cancels the run."""
        return stream_code(self._client, self._info.sandbox_id, code, context=self, **options)

    async def interrupt(self, **call: Unpack[CallOptions]) -> None:
        """Interrupts the current run, which ends with `CanceledError`. Keeps the variables."""
        await self._change("interruptContext", **call)

    async def restart(self, **call: Unpack[CallOptions]) -> None:
        """Replaces the kernel: the variables are lost, the id stays."""
        await self._change("restartContext", **call)

    async def delete(self, **call: Unpack[CallOptions]) -> None:
        """Deletes the context and ends its runs. Idempotent."""
        await self._change("deleteContext", **call)

    async def _change(self, operation_id: str, **call: Unpack[CallOptions]) -> None:
        params = {"sandboxId": self._info.sandbox_id, "contextId": self.id}
        self._info = await self._client.one(CodeContext, "context", operation_id, params=params, **call)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.delete()


class AsyncContexts:
    """The contexts of a sandbox."""

    def __init__(self, client: AsyncApiClient, sandbox_id: str) -> None:
        self._client = client
        self._sandbox_id = sandbox_id

    def create(
        self,
        *,
        language: Literal["python", "javascript", "typescript"] = "python",
        cwd: str | None = None,
        timeout_ms: float | None = None,
        **call: Unpack[RetryOptions],
    ) -> Opened[AsyncContext]:
        """
        Creates a context; `with` deletes it at the end of the block.

        `cwd`: default `/workspace`. `timeout_ms`: milliseconds that the creation may take, default 30000; if given,
        also the default of its runs.
        """
        return opened(self._create({"language": language, "cwd": cwd, "timeout_ms": timeout_ms}, **call))

    async def _create(self, body: dict[str, object], **call: Unpack[RetryOptions]) -> AsyncContext:
        params = {"sandboxId": self._sandbox_id}
        info = await self._client.one(CodeContext, "context", "createContext", params=params, body=body, **call)
        return AsyncContext(self._client, info)

    async def list(self, **call: Unpack[PageOptions]) -> AsyncPage[AsyncContext]:
        """Lists active contexts, oldest first."""
        params = {"sandboxId": self._sandbox_id}
        show = partial(AsyncContext, self._client)
        return await self._client.page(CodeContext, "listContexts", show, params=params, **call)

    async def get(self, context_id: str, **call: Unpack[CallOptions]) -> AsyncContext:
        """Returns an active context. Raises `NotFoundError`, also for a deleted one."""
        params = {"sandboxId": self._sandbox_id, "contextId": context_id}
        info = await self._client.one(CodeContext, "context", "getContext", params=params, **call)
        return AsyncContext(self._client, info)

    async def delete(self, context_id: str, **call: Unpack[CallOptions]) -> CodeContext:
        """Deletes a context and ends its runs. Idempotent."""
        params = {"sandboxId": self._sandbox_id, "contextId": context_id}
        return await self._client.one(CodeContext, "context", "deleteContext", params=params, **call)
