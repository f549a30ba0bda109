"""Contexts: namespaces of one language, in which variables stay from run to run."""

from __future__ import annotations

from collections.abc import Generator
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Literal

from cloche._generated.models import CodeContext, CodeOutput, CodeRun, CodeRunEvent
from cloche._sync.client import ApiClient
from cloche._sync.pages import Page
from cloche._sync.runs import run_code, stream_code
from cloche._sync.runtime import Callback, Opened, opened

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from cloche._core.options import CallOptions, PageOptions, RetryOptions
    from cloche._sync.runs import ContextRunOptions, RunCallbacks


class Context:
    """
    A namespace of one language in a sandbox.

    >>> with sandbox.contexts.create(language="javascript") as context:
    ...     _ = context.run("let n = 20")
    ...     (context.run("n + 1")).text
    '21'
    """

    def __init__(self, client: ApiClient, info: CodeContext) -> None:
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

    def run(
        self,
        code: str,
        *,
        on_stdout: Callback[str] | None = None,
        on_stderr: Callback[str] | None = None,
        on_output: Callback[CodeOutput] | None = None,
        **options: Unpack[ContextRunOptions],
    ) -> CodeRun:
        """Runs code in the context, after the runs that were sent to it before. Code that fails does not raise."""
        callbacks: RunCallbacks = {"on_stdout": on_stdout, "on_stderr": on_stderr, "on_output": on_output}
        return run_code(self._client, self._info.sandbox_id, code, callbacks, context=self, **options)

    def stream(self, code: str, **options: Unpack[ContextRunOptions]) -> Generator[CodeRunEvent, None]:
        """Yields the events of a run as they happen. Leaving the loop cancels the run."""
        return stream_code(self._client, self._info.sandbox_id, code, context=self, **options)

    def interrupt(self, **call: Unpack[CallOptions]) -> None:
        """Interrupts the current run, which ends with `CanceledError`. Keeps the variables."""
        self._change("interruptContext", **call)

    def restart(self, **call: Unpack[CallOptions]) -> None:
        """Replaces the kernel: the variables are lost, the id stays."""
        self._change("restartContext", **call)

    def delete(self, **call: Unpack[CallOptions]) -> None:
        """Deletes the context and ends its runs. Idempotent."""
        self._change("deleteContext", **call)

    def _change(self, operation_id: str, **call: Unpack[CallOptions]) -> None:
        params = {"sandboxId": self._info.sandbox_id, "contextId": self.id}
        self._info = self._client.one(CodeContext, "context", operation_id, params=params, **call)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.delete()


class Contexts:
    """The contexts of a sandbox."""

    def __init__(self, client: ApiClient, sandbox_id: str) -> None:
        self._client = client
        self._sandbox_id = sandbox_id

    def create(
        self,
        *,
        language: Literal["python", "javascript", "typescript"] = "python",
        cwd: str | None = None,
        timeout_ms: float | None = None,
        **call: Unpack[RetryOptions],
    ) -> Opened[Context]:
        """
        Creates a context; `with` deletes it at the end of the block.

        `cwd`: default `/workspace`. `timeout_ms`: milliseconds that the creation may take, default 30000; if given,
        also the default of its runs.
        """
        return opened(self._create({"language": language, "cwd": cwd, "timeout_ms": timeout_ms}, **call))

    def _create(self, body: dict[str, object], **call: Unpack[RetryOptions]) -> Context:
        params = {"sandboxId": self._sandbox_id}
        info = self._client.one(CodeContext, "context", "createContext", params=params, body=body, **call)
        return Context(self._client, info)

    def list(self, **call: Unpack[PageOptions]) -> Page[Context]:
        """Lists active contexts, oldest first."""
        params = {"sandboxId": self._sandbox_id}
        show = partial(Context, self._client)
        return self._client.page(CodeContext, "listContexts", show, params=params, **call)

    def get(self, context_id: str, **call: Unpack[CallOptions]) -> Context:
        """Returns an active context. Raises `NotFoundError`, also for a deleted one."""
        params = {"sandboxId": self._sandbox_id, "contextId": context_id}
        info = self._client.one(CodeContext, "context", "getContext", params=params, **call)
        return Context(self._client, info)

    def delete(self, context_id: str, **call: Unpack[CallOptions]) -> CodeContext:
        """Deletes a context and ends its runs. Idempotent."""
        params = {"sandboxId": self._sandbox_id, "contextId": context_id}
        return self._client.one(CodeContext, "context", "deleteContext", params=params, **call)
