"""The commands of a sandbox."""

from __future__ import annotations

import base64
import uuid
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from cloche._async.client import AsyncApiClient
from cloche._async.pages import AsyncPage
from cloche._async.runtime import AsyncCallback, deliver, finish
from cloche._async.streams import stream_resumed
from cloche._async.waiting import wait_for_end
from cloche._core.errors import ClocheError
from cloche._core.event_reading import EventReader
from cloche._core.kept_text import KeptText
from cloche._generated.models import CodeRunTruncated, CommandEvent, CommandLogEntry, CommandLogPage
from cloche._generated.models import Command as CommandInfo
from cloche._generated.operations import COMMAND_TIMEOUT_DEFAULT_MS

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from cloche._core.options import CallOptions, PageOptions, RetryOptions

    class CommandOptions(RetryOptions, total=False):
        """Options of a command."""

        cwd: str | None
        """Default: `/workspace`."""
        env: Mapping[str, str] | None
        """Environment variables; they override those of the sandbox."""
        stdin: str | None
        """Text for standard input, which is then closed."""
        user: Literal["user", "root"] | None
        """`root` is root only inside the sandbox. Default: `user`."""
        timeout_ms: float | None
        """Milliseconds after which all its processes are ended. Default: 60000 for `run`, none for `start`."""


# Bytes of one write. Divisible by three, so that only the last piece has base64 padding.
_STDIN_BYTES = 384 * 1024


class AsyncCommand:
    """A command in a sandbox."""

    def __init__(self, client: AsyncApiClient, info: CommandInfo) -> None:
        self._client = client
        self._info = info
        self._params = {"sandboxId": info.sandbox_id, "commandId": info.id}

    @property
    def id(self) -> str:
        """Id of the command."""
        return self._info.id

    @property
    def info(self) -> CommandInfo:
        """The last known state; `refresh` updates it."""
        return self._info

    async def refresh(self, **call: Unpack[CallOptions]) -> Self:
        """Updates `info`."""
        return await self._take("getCommand", **call)

    async def wait(self, *, timeout_ms: float | None = None, max_retries: int | None = None) -> CommandInfo:
        """
        Waits for the end of the command, without a limit unless `timeout_ms` sets one.

        Raises `DeadlineExceededError`: the command is still running.
        """

        async def refresh(wait_ms: int) -> None:
            await self._take("getCommand", query={"wait_ms": wait_ms}, max_retries=max_retries)

        def has_ended() -> bool:
            return self._info.status != "running"

        await wait_for_end(self._client, f"Command {self.id}", has_ended, refresh, timeout_ms, max_retries)
        return self._info

    async def logs(self, *, after_seq: int = 0, **call: Unpack[CallOptions]) -> AsyncGenerator[CommandLogEntry, None]:
        """
        Yields the output so far and the output to come, in order, until the command ends. Reconnects, also when
        something resumes a sandbox that was paused.
        """
        async with aclosing(self.events(after_seq=after_seq, **call)) as events:
            async for event in events:
                if event.type == "log":
                    yield event.data

    async def events(self, *, after_seq: int = 0, **call: Unpack[CallOptions]) -> AsyncGenerator[CommandEvent, None]:
        """Yields the output as `logs` does, then `exit` with the ended command. Leaving the loop does not end it."""
        events: AsyncGenerator[CommandEvent, None] = stream_resumed(
            self._client,
            "streamCommand",
            lambda: EventReader[CommandEvent](CommandEvent),
            lambda event: event.data.seq if event.type == "log" else None,
            lambda event: event.type == "exit",
            after_seq=after_seq,
            params=self._params,
            sandbox_id=self._info.sandbox_id,
            **call,
        )
        async with aclosing(events):
            async for event in events:
                if event.type == "exit":
                    self._info = event.data
                yield event

    async def list_logs(
        self, *, after_seq: int = 0, limit: int | None = None, **call: Unpack[CallOptions]
    ) -> CommandLogPage:
        """Returns a page of the output, oldest first. Continue with `next_seq` as `after_seq` while `has_more`."""
        query = {"after_seq": after_seq, "limit": limit}
        return await self._client.whole(CommandLogPage, "listCommandLogs", params=self._params, query=query, **call)

    async def send_stdin(self, data: str | bytes, *, close: bool = False, **call: Unpack[CallOptions]) -> None:
        """Writes to standard input; requires `stdin_open`. Returns when all data is written."""
        rest = data.encode() if isinstance(data, str) else data
        while True:
            piece, rest = rest[:_STDIN_BYTES], rest[_STDIN_BYTES:]
            body = {"data": base64.b64encode(piece).decode(), "encoding": "base64", "close": close and not rest}
            await self._take("writeCommandStdin", body=body, **call)
            if not rest:
                return

    async def close_stdin(self, **call: Unpack[CallOptions]) -> None:
        """Closes standard input."""
        await self.send_stdin(b"", close=True, **call)

    async def resize(self, cols: int, rows: int, **call: Unpack[CallOptions]) -> Self:
        """Resizes the terminal of a command that was started with `terminal`. Raises `ConflictError`."""
        return await self._take("resizeCommand", body={"cols": cols, "rows": rows}, **call)

    async def kill(self, signal: str = "SIGKILL", **call: Unpack[CallOptions]) -> Self:
        """Sends a signal to the command and all processes that it started. Idempotent."""
        return await self._take("killCommand", body={"signal": signal}, **call)

    async def _take(self, operation_id: str, **request: Any) -> Self:
        self._info = await self._client.one(CommandInfo, "command", operation_id, params=self._params, **request)
        return self

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} {self._info.status}>"


class AsyncCommands:
    """The commands of a sandbox."""

    def __init__(self, client: AsyncApiClient, sandbox_id: str) -> None:
        self._client = client
        self._params = {"sandboxId": sandbox_id}

    async def run(
        self,
        command: str | Sequence[str],
        *,
        on_stdout: AsyncCallback[str] | None = None,
        on_stderr: AsyncCallback[str] | None = None,
        **options: Unpack[CommandOptions],
    ) -> CommandInfo:
        """
        Runs a shell line, or a program with its arguments, to its end. A failing command does not raise: see `status`
        and `exit_code`. With a callback, output arrives while the command runs, and an exception or a cancellation
        kills it. Without one, it runs on until `timeout_ms`, because only its response names it.

        >>> (await sandbox.commands.run("echo hi; exit 3")).exit_code
        3
        >>> _ = await sandbox.commands.run(["printf", "%s", "a b"], on_stdout=print)
        a b
        """
        if on_stdout is None and on_stderr is None:
            request = _request(command, dict(options))
            return await self._client.one(CommandInfo, "command", "createCommand", params=self._params, **request)
        options.setdefault("timeout_ms", COMMAND_TIMEOUT_DEFAULT_MS)
        started = await self._start_or_kill(command, options)
        return await _follow(started, on_stdout, on_stderr)

    async def start(
        self,
        command: str | Sequence[str],
        *,
        stdin_open: bool = False,
        terminal: tuple[int, int] | None = None,
        **options: Unpack[CommandOptions],
    ) -> AsyncCommand:
        """Starts a command and returns while it runs.

        `stdin_open` keeps its standard input open for `send_stdin`. `terminal` runs it in a terminal with that many
        columns and rows.
        """
        size = None if terminal is None else {"cols": terminal[0], "rows": terminal[1]}
        request = _request(command, {**options, "background": True, "stdin_open": stdin_open or None, "terminal": size})
        info = await self._client.one(CommandInfo, "command", "createCommand", params=self._params, **request)
        return AsyncCommand(self._client, info)

    async def _start_or_kill(self, command: str | Sequence[str], options: CommandOptions) -> AsyncCommand:
        """Starts a command, and kills it if the caller is canceled or interrupted before the response."""
        options["idempotency_key"] = options.get("idempotency_key") or str(uuid.uuid4())

        async def kill() -> None:
            # With the same key, the response names the command that the first request has started.
            await (await self.start(command, **options)).kill()

        try:
            return await self.start(command, **options)
        except ClocheError:
            raise
        except BaseException:
            await finish(kill)
            raise

    async def list(self, **call: Unpack[PageOptions]) -> AsyncPage[AsyncCommand]:
        """Lists all commands, oldest first, including ended ones."""
        show = partial(AsyncCommand, self._client)
        return await self._client.page(CommandInfo, "listCommands", show, params=self._params, **call)

    async def get(self, command_id: str, **call: Unpack[CallOptions]) -> AsyncCommand:
        """Returns a command. Raises `NotFoundError`."""
        params = {**self._params, "commandId": command_id}
        return AsyncCommand(
            self._client, await self._client.one(CommandInfo, "command", "getCommand", params=params, **call)
        )

    async def kill(self, command_id: str, signal: str = "SIGKILL", **call: Unpack[CallOptions]) -> CommandInfo:
        """Sends a signal to a command and all processes that it started. Idempotent. Raises `NotFoundError`."""
        params = {**self._params, "commandId": command_id}
        body = {"signal": signal}
        return await self._client.one(CommandInfo, "command", "killCommand", params=params, body=body, **call)


def _request(command: str | Sequence[str], options: dict[str, Any]) -> dict[str, Any]:
    calls = {name: options.pop(name) for name in ("idempotency_key", "max_retries") if name in options}
    body = {"command": command if isinstance(command, str) else list(command), **options}
    return {"body": body, **calls}


async def _follow(
    command: AsyncCommand, on_stdout: AsyncCallback[str] | None, on_stderr: AsyncCallback[str] | None
) -> CommandInfo:
    kept = {"stdout": KeptText(), "stderr": KeptText()}
    try:
        async with aclosing(command.logs()) as entries:
            async for entry in entries:
                if entry.stream in kept:
                    kept[entry.stream].push(entry.data)
                await deliver(on_stdout if entry.stream == "stdout" else on_stderr, entry.data)
    except BaseException:
        # Nothing reads the output any more.
        await finish(command.kill)
        raise
    outputs: dict[str, Any] = {stream: text.text for stream, text in kept.items()}
    cut = {stream: text.cut_bytes for stream, text in kept.items() if text.cut_bytes > 0}
    if cut:
        outputs["truncated"] = CodeRunTruncated(**cut)
    return command.info.replaced(**outputs)
