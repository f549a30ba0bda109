"""Artifacts: files that outlive their sandboxes."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Literal

from cloche._async.client import AsyncApiClient
from cloche._async.files import AsyncFileStream
from cloche._async.pages import AsyncPage
from cloche._core.labels import label_query
from cloche._generated.models import Artifact, ArtifactDownloadUrl

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from cloche._core.options import CallOptions, PageOptions

# A large file takes long, so the limit of an export is longer than that of other calls.
_EXPORT_MS = 600_000


class AsyncArtifacts:
    """The artifacts of all sandboxes that the key can see."""

    def __init__(self, client: AsyncApiClient) -> None:
        self._client = client

    async def list(
        self,
        *,
        project_id: str | None = None,
        sandbox_id: str | None = None,
        workspace_run_id: str | None = None,
        name: str | None = None,
        metadata: Mapping[str, str] | None = None,
        **call: Unpack[PageOptions],
    ) -> AsyncPage[Artifact]:
        """Lists artifacts, newest first. `metadata`: labels that they must have, all of them."""
        query: dict[str, Any] = {"project_id": project_id, "sandbox_id": sandbox_id, "name": name}
        query |= {"workspace_run_id": workspace_run_id, **label_query(metadata)}
        return await self._client.page(Artifact, "listArtifacts", query=query, **call)

    async def get(self, artifact_id: str, **call: Unpack[CallOptions]) -> Artifact:
        """Returns an artifact. Raises `NotFoundError`, also for a deleted one."""
        params = {"artifactId": artifact_id}
        return await self._client.one(Artifact, "artifact", "getArtifact", params=params, **call)

    @asynccontextmanager
    async def download(
        self, artifact_id: str, *, start: int | None = None, end: int | None = None, **call: Unpack[CallOptions]
    ) -> AsyncGenerator[AsyncFileStream, None]:
        """
        Opens the content, from byte `start` up to and not including `end`, by default all.

        >>> _ = await sandbox.files.write("report.csv", "a,b")
        >>> artifact = await sandbox.artifacts.export("report.csv")
        >>> async with cloche.artifacts.download(artifact.id) as content:
        ...     await content.read()
        b'a,b'
        """
        span = None if start is None and end is None else f"bytes={start or 0}-{'' if end is None else end - 1}"
        request: dict[str, Any] = {"params": {"artifactId": artifact_id}, "headers": {"range": span}}
        async with self._client.download("downloadArtifact", **request, **call) as response:
            yield AsyncFileStream(response)

    async def download_url(
        self, artifact_id: str, *, expires_in_ms: int | None = None, **call: Unpack[CallOptions]
    ) -> ArtifactDownloadUrl:
        """Returns a URL that downloads the artifact without a key. `expires_in_ms`: default an hour, at most 7 days."""
        params, body = {"artifactId": artifact_id}, {"expires_in_ms": expires_in_ms}
        return await self._client.one(
            ArtifactDownloadUrl, "download", "createArtifactDownloadUrl", params=params, body=body, **call
        )

    async def delete(self, artifact_id: str, **call: Unpack[CallOptions]) -> Artifact:
        """Deletes an artifact. Idempotent."""
        params = {"artifactId": artifact_id}
        return await self._client.one(Artifact, "artifact", "deleteArtifact", params=params, **call)


class AsyncSandboxArtifacts:
    """The artifacts of one sandbox."""

    def __init__(self, client: AsyncApiClient, sandbox_id: str) -> None:
        self._client = client
        self._sandbox_id = sandbox_id

    async def export(
        self,
        path: str,
        *,
        name: str | None = None,
        content_type: str | None = None,
        metadata: Mapping[str, str] | None = None,
        user: Literal["user", "root"] | None = None,
        timeout_ms: float = _EXPORT_MS,
        idempotency_key: str | None = None,
        max_retries: int | None = None,
    ) -> Artifact:
        """
        Stores a file, or a directory as a tar.gz, as an artifact, which outlives the sandbox.

        `name`: file name of a download, default the last part of the path. `content_type`: default by the name.

        Raises `NotFoundError`, `PermissionDeniedError`, `QuotaExceededError`.
        """
        body = {"path": path, "name": name, "content_type": content_type, "metadata": metadata, "user": user}
        call: dict[str, Any] = {"timeout_ms": timeout_ms, "idempotency_key": idempotency_key}
        params = {"sandboxId": self._sandbox_id}
        return await self._client.one(
            Artifact, "artifact", "exportArtifact", params=params, body=body, max_retries=max_retries, **call
        )

    async def list(
        self, *, name: str | None = None, metadata: Mapping[str, str] | None = None, **call: Unpack[PageOptions]
    ) -> AsyncPage[Artifact]:
        """Lists the artifacts of the sandbox, newest first."""
        artifacts = AsyncArtifacts(self._client)
        return await artifacts.list(sandbox_id=self._sandbox_id, name=name, metadata=metadata, **call)
