"""Workspace runs: a command on an uploaded directory, in a sandbox of its own."""

from __future__ import annotations

import base64
import os
from collections.abc import Generator, Mapping
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple
from urllib.parse import urlsplit

from cloche._core.errors import ClocheError
from cloche._core.event_reading import EventReader
from cloche._core.failures import error_of
from cloche._core.labels import label_query
from cloche._core.request import UploadBytes, source_of
from cloche._generated.models import (
    ArchiveTransfer,
    Artifact,
    WorkspaceRunEvent,
    WorkspaceRunEventPage,
    WorkspaceRunStreamEvent,
)
from cloche._generated.models import WorkspaceRun as WorkspaceRunInfo
from cloche._generated.operations import WORKSPACE_ARCHIVE_BYTES
from cloche._sync.client import ApiClient
from cloche._sync.pages import Page
from cloche._sync.runtime import Callback, deliver, finish, in_thread
from cloche._sync.streams import stream_resumed
from cloche._sync.waiting import wait_for_end

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from cloche._core.options import CallOptions, PageOptions, RetryOptions, SelectionOptions
    from cloche._generated.bodies import CreateWorkspaceRun

    class WorkspaceRunOptions(CreateWorkspaceRun, RetryOptions):
        """Fields of the new run, and options of its calls."""


ArchiveFormat = Literal["tar", "tar.gz", "tar.zst", "zip"]
_TYPES = {"tar": "application/x-tar", "tar.gz": "application/gzip", "tar.zst": "application/zstd"}
_FINISHED = ("succeeded", "failed", "timed_out", "canceled")
# Attempts of a transfer, each with a URL of its own.
_TRANSFERS = 3
_CANCEL_MS = 5000


class Output(NamedTuple):
    """What a command has written."""

    stdout: str
    stderr: str


class WorkspaceRun:
    """A command that runs on an uploaded workspace, in a sandbox of its own."""

    def __init__(self, client: ApiClient, info: WorkspaceRunInfo) -> None:
        self._client = client
        self._info = info
        self._params = {"workspaceRunId": info.id}

    @property
    def id(self) -> str:
        """Id of the run."""
        return self._info.id

    @property
    def info(self) -> WorkspaceRunInfo:
        """The last known state; `refresh` updates it."""
        return self._info

    @property
    def is_finished(self) -> bool:
        """Whether the last known state is final."""
        return self._info.status in _FINISHED

    def refresh(self, **call: Unpack[CallOptions]) -> Self:
        """Updates `info`."""
        return self._take("getWorkspaceRun", **call)

    def upload_archive(
        self,
        content: UploadBytes,
        *,
        format: ArchiveFormat,
        size_bytes: int | None = None,
        sha256: str | None = None,
        max_retries: int | None = None,
    ) -> Self:
        """
        Uploads the workspace. Before the run is started, a further archive replaces the first one.

        `size_bytes`, `sha256` (in hexadecimal): required of an archive of more than 100 MiB, which is sent to a signed
        URL. The size of bytes and of files is known.
        """
        source = source_of(content)
        size = source.size_bytes if size_bytes is None else size_bytes
        if size is not None and size > WORKSPACE_ARCHIVE_BYTES:
            return self._transfer(content, format, size, sha256, max_retries)
        digest = None if sha256 is None else f"sha-256=:{base64.b64encode(bytes.fromhex(sha256)).decode()}:"
        return self._take(
            "uploadWorkspaceArchive",
            headers={"content-digest": digest},
            content=content,
            content_type=_TYPES.get(format, "application/zip"),
            max_retries=max_retries,
        )

    def start(self, **call: Unpack[CallOptions]) -> Self:
        """Queues the run, which has an archive. Raises `ConflictError` if it was started already."""
        return self._take("startWorkspaceRun", **call)

    def cancel(self, **call: Unpack[CallOptions]) -> Self:
        """Ends the command, or keeps a queued run from starting. Does not wait for the end. Idempotent."""
        return self._take("cancelWorkspaceRun", **call)

    def wait(self, *, timeout_ms: float | None = None, max_retries: int | None = None) -> Self:
        """
        Waits until the run has finished, without a limit unless `timeout_ms` sets one.

        Raises `DeadlineExceededError`: the run has not finished.
        """

        def refresh(wait_ms: int) -> None:
            query = {"wait_for": "finished", "wait_ms": wait_ms}
            self._take("getWorkspaceRun", query=query, max_retries=max_retries)

        def has_ended() -> bool:
            return self.is_finished

        wait_for_end(self._client, f"Workspace run {self.id}", has_ended, refresh, timeout_ms, max_retries)
        return self

    def list_events(
        self, *, after_seq: int = 0, limit: int | None = None, **call: Unpack[CallOptions]
    ) -> WorkspaceRunEventPage:
        """Returns a page of events, oldest first. Continue with `next_seq` as `after_seq` while `has_more`."""
        query = {"after_seq": after_seq, "limit": limit}
        return self._client.whole(
            WorkspaceRunEventPage, "listWorkspaceRunEvents", params=self._params, query=query, **call
        )

    def events(self, *, after_seq: int = 0, **call: Unpack[CallOptions]) -> Generator[WorkspaceRunEvent, None]:
        """
        Yields the events after `after_seq` and those to come, until the run has finished; `info` is then final.
        Resumes an interrupted stream without losing or repeating an event. Leaving the loop does not affect the run.
        """
        events: Generator[WorkspaceRunStreamEvent, None] = stream_resumed(
            self._client,
            "streamWorkspaceRunEvents",
            lambda: EventReader[WorkspaceRunStreamEvent](WorkspaceRunStreamEvent),
            lambda event: None if event.type == "exit" else event.seq,
            lambda event: event.type == "exit",
            after_seq=after_seq,
            params=self._params,
            **call,
        )
        with closing(events):
            for event in events:
                if event.type == "exit":
                    self._info = event.data
                else:
                    yield event

    def output(self, **call: Unpack[CallOptions]) -> Output:
        """Returns the output that the service keeps: 64 MiB at most, without the oldest if there was more."""
        texts: dict[str, list[str]] = {"stdout": [], "stderr": []}
        after_seq, has_more = 0, True
        while has_more:
            page = self.list_events(after_seq=after_seq, **call)
            for event in page.data:
                if event.type == "stdout" or event.type == "stderr":
                    texts[event.type].append(event.data)
            after_seq, has_more = page.next_seq, page.has_more
        return Output("".join(texts["stdout"]), "".join(texts["stderr"]))

    def artifacts(self, **call: Unpack[PageOptions]) -> Page[Artifact]:
        """Lists the artifacts that the run exported."""
        return self._client.page(Artifact, "listArtifacts", query={"workspace_run_id": self.id}, **call)

    def _transfer(
        self, content: UploadBytes, format: str, size_bytes: int, sha256: str | None, max_retries: int | None
    ) -> Self:
        """Sends the bytes to a signed URL, then has the service verify them. An interrupted transfer starts anew."""
        if sha256 is None:
            raise error_of("invalid_options", "An archive of more than 100 MiB needs its `sha256`, in hexadecimal.")
        body = {"size_bytes": size_bytes, "sha256": sha256, "format": format}
        for attempt in range(1, _TRANSFERS + 1):
            source = source_of(content)
            try:
                target = self._client.one(
                    ArchiveTransfer,
                    "transfer",
                    "createArchiveTransfer",
                    params=self._params,
                    body=body,
                    max_retries=max_retries,
                )
                self._client.put(target.url, target.headers, source, size_bytes)
                return self._take("finalizeArchive", max_retries=max_retries)
            except ClocheError as error:
                # A lost upload is a conflict with the status in which archives are awaited.
                is_lost = error.code in ("unreachable", "unexpected_response", "conflict")
                if not is_lost or not source.is_repeatable or attempt == _TRANSFERS or has_started(error):
                    raise
        return self

    def _take(self, operation_id: str, **request: Any) -> Self:
        self._info = self._client.one(WorkspaceRunInfo, "workspaceRun", operation_id, params=self._params, **request)
        return self

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} {self._info.status}>"


class WorkspaceRuns:
    """The workspace runs that the key can see."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client

    def run(
        self,
        directory: str | os.PathLike[str],
        *,
        on_event: Callback[WorkspaceRunEvent] | None = None,
        on_created: Callback[WorkspaceRun] | None = None,
        **options: Unpack[WorkspaceRunOptions],
    ) -> WorkspaceRun:
        r"""
        Packs a directory, uploads it, runs the command in a new sandbox, and waits for the end. A failing command does
        not raise: see `info.status` and `info.exit_code`. A run that is interrupted, for example by Ctrl-C, is
        canceled; after an error of the connection it goes on, and a call with the same `idempotency_key` follows it.

        `on_event`: receives output, statuses and artifacts as they come.

        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = pathlib.Path(folder, "data.txt").write_text("one two")
        ...     run = cloche.workspace_runs.run(folder, command="wc -w < data.txt")
        >>> run.info.status, (run.output()).stdout
        ('succeeded', '2\n')
        """
        run = self.start(directory, on_created=on_created, **options)
        try:
            if on_event is None:
                return run.wait(max_retries=options.get("max_retries"))
            with closing(run.events(max_retries=options.get("max_retries"))) as events:
                for event in events:
                    deliver(on_event, event)
            return run
        except ClocheError:
            raise
        except BaseException:
            _cancel(run)
            raise

    def start(
        self,
        directory: str | os.PathLike[str],
        *,
        on_created: Callback[WorkspaceRun] | None = None,
        **options: Unpack[WorkspaceRunOptions],
    ) -> WorkspaceRun:
        """
        Packs, uploads and starts as `run` does, and returns while the command runs. The archive lacks what the
        `.gitignore` and `.clocheignore` files leave out, and `.git`.

        Raises `PackingFailedError`.
        """
        # Imported here, because most programs pack nothing.
        from cloche._core.packing import pack_directory

        # On the same machine, compressing takes longer than sending.
        is_near = urlsplit(self._client.url).hostname in ("localhost", "127.0.0.1", "::1")
        archive = in_thread(lambda: pack_directory(directory, compress=not is_near))
        try:
            run = self.create(**options)
            try:
                deliver(on_created, run)
                key = options.get("idempotency_key")
                _start_once(run, archive, options.get("max_retries"), key and f"{key}:start")
                return run
            except BaseException:
                _cancel(run)
                raise
        finally:
            archive.close()

    def create(self, **options: Unpack[WorkspaceRunOptions]) -> WorkspaceRun:
        """Creates a run, which next takes an archive: see `upload_archive` and `start` of the run."""
        body: dict[str, Any] = dict(options)
        call = {name: body.pop(name) for name in ("idempotency_key", "max_retries") if name in body}
        info = self._client.one(WorkspaceRunInfo, "workspaceRun", "createWorkspaceRun", body=body, **call)
        return WorkspaceRun(self._client, info)

    def list(
        self,
        *,
        project_id: str | None = None,
        status: str | None = None,
        metadata: Mapping[str, str] | None = None,
        **call: Unpack[SelectionOptions],
    ) -> Page[WorkspaceRun]:
        """Lists runs, newest first. `metadata`: labels that they must have, all of them."""
        query = {"project_id": project_id, "status": status, **label_query(metadata)}
        show = partial(WorkspaceRun, self._client)
        return self._client.page(WorkspaceRunInfo, "listWorkspaceRuns", show, query=query, **call)

    def get(self, workspace_run_id: str, **call: Unpack[CallOptions]) -> WorkspaceRun:
        """Returns a run. Raises `NotFoundError`."""
        params = {"workspaceRunId": workspace_run_id}
        info = self._client.one(WorkspaceRunInfo, "workspaceRun", "getWorkspaceRun", params=params, **call)
        return WorkspaceRun(self._client, info)


def has_started(error: ClocheError) -> bool:
    """Returns whether a conflict means that the run was already started, so that it accepts no archive any more."""
    details: Any = error.details or {}
    status = details.get("status") if error.code == "conflict" else None
    return status is not None and status not in ("awaiting_archive", "archived")


def _start_once(run: WorkspaceRun, archive: Any, max_retries: int | None, key: str | None) -> None:
    """Uploads the archive and starts the run, unless an earlier call with the same key did."""
    try:
        run.upload_archive(archive.file, format=archive.format, sha256=archive.sha256, max_retries=max_retries)
    except ClocheError as error:
        if key is None or not has_started(error):
            raise
    run.start(max_retries=max_retries, idempotency_key=key)


def _cancel(run: WorkspaceRun) -> None:
    """Cancels on a best-effort basis: the error that led here is the one to report."""
    finish(lambda: run.cancel(timeout_ms=_CANCEL_MS))
