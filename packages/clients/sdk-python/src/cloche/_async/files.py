"""The files of a sandbox."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Any, Literal

import httpx

from cloche._async.client import AsyncApiClient
from cloche._async.pages import AsyncPage
from cloche._async.pauses import until_resumed
from cloche._async.streams import stream_once
from cloche._core.errors import ClocheError
from cloche._core.event_reading import EventReader
from cloche._core.failures import error_of
from cloche._core.request import UploadBytes
from cloche._generated.errors import NotFoundError
from cloche._generated.models import FileEntry, FileEvent, FileOverflowEvent

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from cloche._core.options import CallOptions, PageOptions

    class FileOptions(CallOptions, total=False):
        """Options of a call about files."""

        user: Literal["user", "root"] | None
        """User whose rights apply; `root` of the sandbox is not root of the host. Default: `user`."""

    class ListFilesOptions(FileOptions, PageOptions):
        """Options of a list of files."""


class AsyncFileStream:
    """Bytes that are being read: a file, an archive or an artifact."""

    def __init__(self, response: httpx.Response) -> None:
        self._response = response

    @property
    def size_bytes(self) -> int | None:
        """Bytes in total, also of a range; `None` if the size is not known in advance."""
        length = self._response.headers.get("content-length", "")
        return int(length) if length.isdigit() else None

    @property
    def etag(self) -> str | None:
        """Identifies the content, for `if_match`."""
        return self._response.headers.get("etag")

    async def read(self) -> bytes:
        """Returns all bytes that are left."""
        return b"".join([chunk async for chunk in self])

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._response.aiter_bytes():
                yield chunk
        except httpx.TimeoutException as cause:
            raise error_of("deadline_exceeded", "The bytes stopped coming; read them again.") from cause
        except (httpx.HTTPError, httpx.StreamError) as cause:
            raise error_of("stream_interrupted", "The bytes broke off before their end; read them again.") from cause


class AsyncFiles:
    """
    The files of a sandbox. Paths are absolute, relative to `/workspace`, or `file:///` URIs, which can name files of
    any bytes.

    >>> _ = await sandbox.files.write("notes/a.txt", "one")
    >>> await sandbox.files.read_text("notes/a.txt")
    'one'
    >>> [entry.path for entry in await sandbox.files.list("notes")]
    ['/workspace/notes/a.txt']
    """

    def __init__(self, client: AsyncApiClient, sandbox_id: str) -> None:
        self._client = client
        self._params = {"sandboxId": sandbox_id}

    async def read(
        self,
        path: str,
        *,
        start: int | None = None,
        end: int | None = None,
        if_match: str | None = None,
        **options: Unpack[FileOptions],
    ) -> bytes:
        """
        Returns the bytes of a file: from `start` up to and not including `end`, by default all.

        `if_match`: ETag that the file must have. Raises `NotFoundError`, `PermissionDeniedError`,
        `PreconditionFailedError`, `RangeNotSatisfiableError`, `ConflictError` for a directory.
        """
        async with self.stream(path, start=start, end=end, if_match=if_match, **options) as file:
            return await file.read()

    async def read_text(self, path: str, *, encoding: str = "utf-8", **options: Unpack[FileOptions]) -> str:
        """Returns a file as text."""
        return (await self.read(path, **options)).decode(encoding)

    @asynccontextmanager
    async def stream(
        self,
        path: str,
        *,
        start: int | None = None,
        end: int | None = None,
        if_match: str | None = None,
        **options: Unpack[FileOptions],
    ) -> AsyncGenerator[AsyncFileStream, None]:
        """
        Opens a file for reading in pieces, which keeps only one piece in memory.

        >>> _ = await sandbox.files.write("big.bin", bytes(1_000_000))
        >>> async with sandbox.files.stream("big.bin") as file:
        ...     sum([len(chunk) async for chunk in file])
        1000000
        """
        span = None if start is None and end is None else f"bytes={start or 0}-{'' if end is None else end - 1}"
        headers = {"range": span, "if-match": if_match}
        request = _asked({"path": path}, options)
        async with self._client.download("readFile", params=self._params, headers=headers, **request) as response:
            yield AsyncFileStream(response)

    async def write(
        self,
        path: str,
        content: UploadBytes,
        *,
        mode: int | None = None,
        if_match: str | None = None,
        create_only: bool = False,
        **options: Unpack[FileOptions],
    ) -> FileEntry:
        """
        Creates or replaces a file once all bytes have arrived. Creates missing directories.

        `content`: text, bytes, an open file, pieces, or a function that returns one of these. Pieces are sent once;
        all others are sent again if the connection breaks. `mode`: permissions, such as 0o755. `if_match`: ETag that
        the existing file must have. `create_only`: raises `PreconditionFailedError` if the file exists.

        Raises `PermissionDeniedError`, `DiskFullError`.
        """
        headers = {"if-match": if_match, "if-none-match": "*" if create_only else None}
        request = _asked({"path": path, "mode": None if mode is None else f"{mode:03o}"}, options)
        return await self._client.one(
            FileEntry, "file", "writeFile", params=self._params, headers=headers, content=content, **request
        )

    async def list(
        self, path: str = "/workspace", *, depth: int | None = None, **options: Unpack[ListFilesOptions]
    ) -> AsyncPage[FileEntry]:
        """Returns the entries of a directory and, down to `depth`, below it; each directory before its entries."""
        request = _asked({"path": path, "depth": depth}, options)
        return await self._client.page(FileEntry, "listFiles", params=self._params, **request)

    async def stat(self, path: str, **options: Unpack[FileOptions]) -> FileEntry:
        """Returns the entry at the path. A link is not followed. Raises `NotFoundError`."""
        request = _asked({"path": path}, options)
        return await self._client.one(FileEntry, "file", "statFile", params=self._params, **request)

    async def exists(self, path: str, **options: Unpack[FileOptions]) -> bool:
        """Returns whether there is something at the path."""
        try:
            await self.stat(path, **options)
            return True
        except NotFoundError:
            # Raises if the sandbox itself does not exist.
            await self._client.call("getSandbox", params=self._params)
            return False

    async def make_directory(self, path: str, **options: Unpack[FileOptions]) -> FileEntry:
        """Creates a directory and missing directories above it. Idempotent."""
        request = _asked({"path": path}, options, "body")
        return await self._client.one(FileEntry, "file", "makeDirectory", params=self._params, **request)

    async def move(
        self, from_: str, to: str, *, overwrite: bool | None = None, **options: Unpack[FileOptions]
    ) -> FileEntry:
        """Moves a file or a directory. Raises `ConflictError` if the target exists, unless `overwrite`."""
        request = _asked({"from_": from_, "to": to, "overwrite": overwrite}, options, "body")
        return await self._client.one(FileEntry, "file", "moveFile", params=self._params, **request)

    async def copy(
        self, from_: str, to: str, *, overwrite: bool | None = None, **options: Unpack[FileOptions]
    ) -> FileEntry:
        """Copies a file or a directory. Raises `ConflictError` if the target exists, unless `overwrite`."""
        request = _asked({"from_": from_, "to": to, "overwrite": overwrite}, options, "body")
        return await self._client.one(FileEntry, "file", "copyFile", params=self._params, **request)

    async def remove(self, path: str, *, recursive: bool | None = None, **options: Unpack[FileOptions]) -> FileEntry:
        """Deletes a file or a directory. Raises `ConflictError` for one that is not empty, unless `recursive`."""
        request = _asked({"path": path, "recursive": recursive}, options)
        return await self._client.one(FileEntry, "file", "deleteFile", params=self._params, **request)

    @asynccontextmanager
    async def archive(
        self,
        path: str = "/workspace",
        *,
        format: Literal["tar", "tar.gz", "tar.zst", "zip"] | None = None,
        **options: Unpack[FileOptions],
    ) -> AsyncGenerator[AsyncFileStream, None]:
        """Opens a directory as an archive, which is packed while it is read. Default format: `tar.gz`."""
        request = _asked({"path": path, "format": format}, options)
        async with self._client.download("readArchive", params=self._params, **request) as response:
            yield AsyncFileStream(response)

    async def unpack(self, path: str, content: UploadBytes, **options: Unpack[FileOptions]) -> FileEntry:
        """Unpacks a tar (plain, gzip, zstd) or a zip into a directory, completely or not at all."""
        request = _asked({"path": path}, options)
        return await self._client.one(
            FileEntry, "file", "writeArchive", params=self._params, content=content, **request
        )

    async def watch(
        self, path: str = "/workspace", *, recursive: bool | None = None, **options: Unpack[FileOptions]
    ) -> AsyncGenerator[FileEvent, None]:
        """
        Yields the changes in a directory and, with `recursive`, below it. Ends when the loop is left or the directory
        is deleted. Raises `StreamInterruptedError`: look at what matters and watch again. After a pause of the sandbox,
        goes on with `overflow` when something has resumed it.
        """
        request = {**_asked({"path": path, "recursive": recursive}, options), "params": self._params}
        opens: list[str] = []
        while True:
            reader: EventReader[FileEvent] = EventReader(FileEvent)
            events: AsyncGenerator[FileEvent, None] = stream_once(
                self._client, "watchFiles", reader, _is_complete, lambda: opens.append(path), **request
            )
            try:
                async with aclosing(events):
                    async for event in events:
                        yield event
                return
            except ClocheError as error:
                if not opens or error.code != "sandbox_paused":
                    raise
            await until_resumed(self._client, self._params["sandboxId"], options.get("max_retries"))
            yield FileOverflowEvent(type="overflow", data={})


def _is_complete(event: FileEvent) -> bool:
    return event.type == "complete"


def _asked(fields: dict[str, Any], options: Any, part: Literal["query", "body"] = "query") -> dict[str, Any]:
    """Returns the request: fields and the user in one part, and the options of the call."""
    rest: dict[str, Any] = dict(options)
    return {part: {**fields, "user": rest.pop("user", None)}, **rest}
