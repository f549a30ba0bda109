"""The sandbox of a sample."""

from __future__ import annotations

import errno
import os
import posixpath
import uuid
from collections.abc import Generator
from contextlib import AsyncExitStack, contextmanager
from typing import Any, Literal, overload

from cloche import (
    AsyncCloche,
    AsyncSandbox,
    ConflictError,
    NotFoundError,
    PermissionDeniedError,
    SandboxDestroyedError,
    SandboxFailedError,
)
from cloche.models import Command
from inspect_ai.util import (
    ExecResult,
    OutputLimitExceededError,
    SandboxConnection,
    SandboxEnvironment,
    SandboxEnvironmentConfigType,
    SandboxEnvironmentLimits,
    SandboxUnavailableError,
    SandboxUserUnsupportedError,
    sandboxenv,
)
from pydantic import BaseModel
from typing_extensions import override

from inspect_cloche.config import ClocheConfig

_HOME = "/workspace"
_LABEL = "inspect-task"
_USERS: dict[str | None, Literal["user", "root"]] = {None: "user", "user": "user", "root": "root", "0": "root"}
# A sandbox cannot be created with a longer lifetime, but gets one afterwards.
_LONGEST_FIRST_LIFETIME_MS = 3_600_000
# The service keeps as much of each stream of a command.
_KEPT = "8 MiB"
_NOT_EXECUTABLE = 126


# The decorator of Inspect has no types.
@sandboxenv(name="cloche")  # pyright: ignore[reportUntypedClassDecorator]
class ClocheSandboxEnvironment(SandboxEnvironment):
    """A sandbox of Cloche. `CLOCHE_URL` and `CLOCHE_API_KEY` name the service."""

    def __init__(self, sandbox: AsyncSandbox) -> None:
        """Uses an existing sandbox."""
        super().__init__()
        self.sandbox = sandbox

    @override
    @classmethod
    async def sample_init(
        cls, task_name: str, config: SandboxEnvironmentConfigType | None, metadata: dict[str, str]
    ) -> dict[str, SandboxEnvironment]:
        """Creates the sandbox of a sample."""
        wanted = _read(config)
        lifetime_ms = int(wanted.lifetime_hours * 3_600_000)
        first_ms = min(lifetime_ms, _LONGEST_FIRST_LIFETIME_MS)
        async with AsyncExitStack() as undo:
            creation = AsyncSandbox.create(ttl_ms=first_ms, metadata={_LABEL: task_name[:200]}, **wanted.fields())
            sandbox = await undo.enter_async_context(creation)
            if lifetime_ms > first_ms:
                await sandbox.set_ttl(lifetime_ms)
            undo.pop_all()
        return {"default": cls(sandbox)}

    @override
    @classmethod
    async def sample_cleanup(
        cls,
        task_name: str,
        config: SandboxEnvironmentConfigType | None,
        environments: dict[str, SandboxEnvironment],
        interrupted: bool,
    ) -> None:
        """Destroys the sandbox of a sample."""
        for environment in environments.values():
            async with environment.as_type(cls).sandbox:
                pass

    @override
    @classmethod
    async def cli_cleanup(cls, id: str | None) -> None:
        """Destroys one sandbox, or all that evaluations have left behind (`inspect sandbox cleanup cloche`)."""
        async with AsyncCloche() as cloche:
            for sandbox in await cloche.sandboxes.list():
                if id == sandbox.id or (id is None and _LABEL in sandbox.info.metadata):
                    await sandbox.kill()

    @override
    @classmethod
    def config_deserialize(cls, config: dict[str, Any]) -> BaseModel:
        """Reads the configuration of a log."""
        return ClocheConfig(**config)

    @override
    async def exec(
        self,
        cmd: list[str],
        input: str | bytes | None = None,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        user: str | None = None,
        timeout: int | None = None,
        timeout_retry: bool = True,
        concurrency: bool = True,
    ) -> ExecResult[str]:
        """
        Runs a program to its end.

        `user`: `user` (uid 1000, the default) or `root`. `timeout`: seconds, an hour at most; without one the command
        may take as long as the sandbox lives. `timeout_retry` and `concurrency` have no effect, because the service
        ends what takes too long and nothing runs on this machine.
        """
        if user not in _USERS:
            raise SandboxUserUnsupportedError(f"Sandboxes of Cloche have the users `user` and `root`, and no {user!r}.")
        options: dict[str, Any] = {"cwd": _resolved(cwd or "."), "env": env, "user": _USERS[user]}
        with self._available():
            if input is None:
                ended = await self._run(cmd, timeout, options)
            else:
                ended = await self._run_with_input(cmd, input, timeout, options)
        return _result(ended, timeout)

    @override
    async def write_file(self, file: str, contents: str | bytes) -> None:
        """Creates or replaces a file. Creates missing directories."""
        with self._available(), _file_errors(file):
            await self._require_writable(file)
            await self.sandbox.files.write(_resolved(file), contents)

    @overload
    async def read_file(self, file: str, text: Literal[True] = True) -> str: ...

    @overload
    async def read_file(self, file: str, text: Literal[False]) -> bytes: ...

    @override
    async def read_file(self, file: str, text: bool = True) -> str | bytes:
        """Reads a whole file."""
        limits = SandboxEnvironmentLimits
        with self._available(), _file_errors(file):
            async with self.sandbox.files.stream(_resolved(file)) as stream:
                if (stream.size_bytes or 0) > limits.MAX_READ_FILE_SIZE:
                    raise OutputLimitExceededError(limits.MAX_READ_FILE_SIZE_STR, None)
                content = await stream.read()
        return content.decode() if text else content

    @override
    async def connection(self, *, user: str | None = None) -> SandboxConnection:
        """Returns the command that opens a shell in the sandbox."""
        return SandboxConnection(type="cloche", command=f"cloche shell {self.sandbox.id}")

    async def _require_writable(self, file: str) -> None:
        """Raises for a file that is read-only, which the service would replace by another one."""
        try:
            entry = await self.sandbox.files.stat(_resolved(file))
        except NotFoundError:
            return
        if entry.type == "file" and not int(entry.mode, 8) & 0o222:
            raise PermissionError(errno.EACCES, "The file is read-only", file)

    async def _run(self, cmd: list[str], timeout: int | None, options: dict[str, Any]) -> Command:
        if timeout is not None:
            return await self.sandbox.commands.run(cmd, timeout_ms=timeout * 1000, **options)
        # A command whose output is followed has no time limit.
        return await self.sandbox.commands.run(cmd, timeout_ms=None, on_stdout=_ignore, **options)

    async def _run_with_input(
        self, cmd: list[str], input: str | bytes, timeout: int | None, options: dict[str, Any]
    ) -> Command:
        """Runs a program whose standard input is a file, because the input may have any bytes and any size."""
        path = f"/tmp/.inspect-input-{uuid.uuid4().hex}"
        await self.sandbox.files.write(path, input)
        try:
            return await self._run(["/bin/sh", "-c", f'exec "$@" < {path}', "sh", *cmd], timeout, options)
        finally:
            await self.sandbox.files.remove(path)

    @contextmanager
    def _available(self) -> Generator[None, None, None]:
        try:
            yield
        except (SandboxDestroyedError, SandboxFailedError) as error:
            raise SandboxUnavailableError(str(error)) from error


def _read(config: SandboxEnvironmentConfigType | None) -> ClocheConfig:
    if config is None:
        return ClocheConfig()
    if isinstance(config, ClocheConfig):
        return config
    raise TypeError("Give the provider `cloche` a ClocheConfig: SandboxEnvironmentSpec('cloche', ClocheConfig(...)).")


def _resolved(path: str) -> str:
    return posixpath.join(_HOME, path)


def _ignore(_data: str) -> None:
    """Reads the output as it comes."""


def _result(ended: Command, timeout: int | None) -> ExecResult[str]:
    code = -1 if ended.exit_code is None else ended.exit_code
    stdout, stderr = ended.stdout or "", ended.stderr or ended.failure_reason or ""
    if ended.status == "timed_out":
        raise TimeoutError(f"The command was ended after {timeout} seconds.")
    if code == _NOT_EXECUTABLE and "permission denied" in stderr.lower():
        raise PermissionError(errno.EACCES, stderr)
    limit = SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE
    for output in (stdout, stderr):
        if len(output.encode()) > limit:
            raise OutputLimitExceededError(SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE_STR, output[:limit])
    if ended.truncated is not None:
        raise OutputLimitExceededError(_KEPT, stdout)
    return ExecResult(success=code == 0, returncode=code, stdout=stdout, stderr=stderr)


@contextmanager
def _file_errors(file: str) -> Generator[None, None, None]:
    """Raises the exceptions that Python raises for local files."""
    try:
        yield
    except NotFoundError as error:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), file) from error
    except PermissionDeniedError as error:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), file) from error
    except ConflictError as error:
        if "is a directory" not in error.message:
            raise OSError(errno.EINVAL, error.message, file) from error
        raise IsADirectoryError(errno.EISDIR, "is a directory", file) from error
