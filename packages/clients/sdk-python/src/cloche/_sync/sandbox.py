"""One sandbox."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

from cloche._core.failures import error_of
from cloche._core.names import NULL
from cloche._core.options import call_options
from cloche._core.retry import Deadline
from cloche._generated.models import CodeOutput, CodeRun, CodeRunEvent, SandboxMetrics, SandboxUsage
from cloche._generated.models import Sandbox as SandboxInfo
from cloche._generated.operations import WAIT_MAX_MS
from cloche._sync.artifacts import SandboxArtifacts
from cloche._sync.client import ApiClient
from cloche._sync.commands import Commands
from cloche._sync.contexts import Contexts
from cloche._sync.files import Files
from cloche._sync.previews import Previews
from cloche._sync.pty import Ptys
from cloche._sync.runs import run_code, stream_code
from cloche._sync.runtime import Callback, Opened, opened

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from cloche._core.options import CallOptions
    from cloche._generated.bodies import CreateSandbox, PausePolicyChange
    from cloche._sync.runs import RunCallbacks, RunOptions

    class CreateSandboxOptions(CreateSandbox, CallOptions):
        """Fields of the new sandbox, and options of the call."""


class Sandbox:
    r"""
    A sandbox. `with` destroys it at the end of the block.

    >>> with Sandbox.create(ttl_ms=600_000, client=cloche) as sandbox:
    ...     run = sandbox.run("print(6 * 7)")
    >>> run.stdout
    '42\n'
    """

    commands: Commands
    contexts: Contexts
    files: Files
    pty: Ptys
    artifacts: SandboxArtifacts
    previews: Previews

    def __init__(self, client: ApiClient, info: SandboxInfo, *, owns_client: bool = False) -> None:
        self._client = client
        self._info = info
        self._owns_client = owns_client
        self.commands = Commands(client, info.id)
        self.contexts = Contexts(client, info.id)
        self.files = Files(client, info.id)
        self.pty = Ptys(client, info.id)
        self.artifacts = SandboxArtifacts(client, info.id)
        self.previews = Previews(client, info.id)

    @classmethod
    def create(cls, *, client: ApiClient | None = None, **options: Unpack[CreateSandboxOptions]) -> Opened[Sandbox]:
        """
        Creates a sandbox, as `cloche.sandboxes.create` does.

        `client`: default a client of its own, with `CLOCHE_URL` and `CLOCHE_API_KEY`, which is closed at the end of
        the block.
        """
        owned = ApiClient() if client is None else client
        return opened(_create(owned, client is None, options))

    @property
    def id(self) -> str:
        """Id of the sandbox."""
        return self._info.id

    @property
    def info(self) -> SandboxInfo:
        """The last known state; `refresh` updates it."""
        return self._info

    def refresh(self, **call: Unpack[CallOptions]) -> Self:
        """Updates `info`."""
        return self._take("getSandbox", **call)

    def wait_until_ready(self, *, timeout_ms: float = 60_000, max_retries: int | None = None) -> Self:
        """
        Waits until the sandbox is ready. Not needed before a run: the service holds runs until the sandbox is ready.

        Raises `SandboxFailedError`, `SandboxDestroyedError`, `DeadlineExceededError` after `timeout_ms` milliseconds.
        """
        deadline = Deadline(timeout_ms)
        while True:
            query = {"wait_for": "ready", "wait_ms": deadline.cap_ms(WAIT_MAX_MS)}
            self._take("getSandbox", query=query, max_retries=max_retries)
            if self._is_ready():
                return self
            if not deadline.has(0):
                message = f'Sandbox {self.id} is still "{self._info.status}" after {timeout_ms} ms; wait longer.'
                raise error_of("deadline_exceeded", message)

    def update(
        self,
        *,
        name: str | None = None,
        metadata: Mapping[str, str] | None = None,
        pause: PausePolicyChange | None = None,
        **call: Unpack[CallOptions],
    ) -> Self:
        """
        Sets the given fields, without a wake; `metadata` is replaced whole. An empty `name` removes the name.

        `pause` changes the fields of the policy that it has; an `after_idle_ms` of `None` is never. Raises
        `ConflictError` if another sandbox of the project has the name, or memory cannot be kept.
        """
        policy: dict[str, Any] = {key: NULL if value is None else value for key, value in (pause or {}).items()}
        body = {"name": NULL if name == "" else name, "metadata": metadata, "pause": policy if pause else None}
        return self._take("updateSandbox", body=body, **call)

    def set_ttl(self, ttl_ms: int, **call: Unpack[CallOptions]) -> Self:
        """
        Sets the lifetime: the sandbox expires `ttl_ms` milliseconds from now, which must be later than before.

        Raises `SandboxTtlExceededError` for more than 24 hours after its creation, or its last wake.
        """
        return self._take("setSandboxTtl", body={"ttl_ms": ttl_ms}, **call)

    def pause(
        self,
        *,
        memory: Literal["keep", "prefer", "drop"] | None = None,
        force: bool = False,
        retain_ms: int | None = None,
        **call: Unpack[CallOptions],
    ) -> Self:
        """
        Pauses the sandbox: nothing in it executes until something needs it. Its files are kept.

        `memory`: whether processes and variables are kept (`keep`, the default), kept while there is room (`prefer`),
        or dropped. `force` ends runs and waited commands in progress first. `retain_ms`: how long the pause may last;
        the sandbox is then destroyed. Raises `ConflictError` while runs or waited commands are in progress.

        >>> run = sandbox.run("kept = 41")
        >>> (sandbox.pause(retain_ms=86_400_000)).info.paused.memory
        'kept'
        >>> (sandbox.run("kept + 1")).text
        '42'
        """
        given = {"memory": memory, "retain_ms": retain_ms}
        body = {"force": force, **{key: value for key, value in given.items() if value is not None}}
        return self._take("pauseSandbox", body=body, **call)

    def resume(
        self,
        *,
        ttl_ms: int | None = None,
        memory: Literal["restore", "drop"] | None = None,
        **call: Unpack[CallOptions],
    ) -> Self:
        """
        Resumes the sandbox. One that is not paused is left as it is, but for an expiry that `ttl_ms` moves later.

        `ttl_ms`: lifetime from the wake; default: that of the creation. `memory`: `drop` boots it from its files,
        whatever is kept of its memory. Raises `SandboxTtlExceededError`, and
        `QuotaExceededError` or `UnavailableError`: it stays paused.
        """
        given = {"ttl_ms": ttl_ms, "memory": memory}
        body = {key: value for key, value in given.items() if value is not None}
        return self._take("resumeSandbox", body=body, **call)

    def kill(self, **call: Unpack[CallOptions]) -> Self:
        """Destroys the sandbox and its files at once. Idempotent."""
        return self._take("killSandbox", **call)

    def run(
        self,
        code: str,
        *,
        on_stdout: Callback[str] | None = None,
        on_stderr: Callback[str] | None = None,
        on_output: Callback[CodeOutput] | None = None,
        **options: Unpack[RunOptions],
    ) -> CodeRun:
        """
        Runs code to its end, by default Python. Code that fails or times out does not raise: see `error` of the
        result. With a callback, output arrives while the code runs, and an exception cancels the run.

        >>> (sandbox.run("1 + 1")).text
        '2'
        >>> (sandbox.run("1 / 0")).error.name
        'ZeroDivisionError'
        """
        callbacks: RunCallbacks = {"on_stdout": on_stdout, "on_stderr": on_stderr, "on_output": on_output}
        return run_code(self._client, self.id, code, callbacks, **options)

    def stream(self, code: str, **options: Unpack[RunOptions]) -> Generator[CodeRunEvent, None]:
        """
        Yields the events of a run as they happen, `complete` last. Leaving the loop cancels the run.

        >>> for event in sandbox.stream("print('a')"):
        ...     if event.type == "stdout":
        ...         print(event.data, end="")
        a
        """
        return stream_code(self._client, self.id, code, **options)

    def metrics(self, *, from_: datetime | str | None = None, **call: Unpack[CallOptions]) -> SandboxMetrics:
        """
        Measures what the sandbox uses: now, and every 10 seconds since `from_`, by default for the last hour.

        Raises `SandboxDestroyedError`, `SandboxFailedError`.

        >>> metrics = sandbox.metrics()
        >>> 0 < metrics.now.memory_bytes <= metrics.limits.memory_bytes
        True
        """
        params, query = {"sandboxId": self.id}, {"from_": from_}
        return self._client.one(SandboxMetrics, "metrics", "getSandboxMetrics", params=params, query=query, **call)

    def usage(self, **call: Unpack[CallOptions]) -> SandboxUsage:
        """Returns what the sandbox has used, up to at most ten seconds ago; after its end, until its end."""
        return self._client.one(SandboxUsage, "usage", "getSandboxUsage", params={"sandboxId": self.id}, **call)

    def _take(self, operation_id: str, **request: Any) -> Self:
        params = {"sandboxId": self.id}
        self._info = self._client.one(SandboxInfo, "sandbox", operation_id, params=params, **request)
        return self

    def _is_ready(self) -> bool:
        info = self._info
        if info.status == "failed":
            reason = info.failure_reason or "no reason given"
            raise error_of("sandbox_failed", f"Sandbox {info.id} failed: {reason}.", details={"reason": reason})
        if info.status in ("destroyed", "expiring"):
            reason = info.destroyed_reason or "no reason yet"
            raise error_of("sandbox_destroyed", f"Sandbox {info.id} is {info.status} ({reason}).")
        return info.status in ("ready", "running", "idle")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} {self._info.status}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.kill()
        finally:
            if self._owns_client:
                self._client.close()


def _create(client: ApiClient, owns_client: bool, options: Any) -> Sandbox:
    body: dict[str, Any] = dict(options)
    call = call_options(body)
    try:
        info = client.one(SandboxInfo, "sandbox", "createSandbox", body=body, **call)
    except BaseException:
        if owns_client:
            client.close()
        raise
    return Sandbox(client, info, owns_client=owns_client)
