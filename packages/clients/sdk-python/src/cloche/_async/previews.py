"""Previews: ports of a sandbox, each at a URL of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from cloche._async.client import AsyncApiClient
from cloche._async.pages import AsyncPage
from cloche._generated.models import Preview

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from cloche._core.options import CallOptions, PageOptions


class AsyncPreviews:
    """The previews of a sandbox."""

    def __init__(self, client: AsyncApiClient, sandbox_id: str) -> None:
        self._client = client
        self._params = {"sandboxId": sandbox_id}

    async def open(
        self,
        port: int,
        *,
        visibility: Literal["private", "public"] | None = None,
        ttl_ms: int | None = None,
        **call: Unpack[CallOptions],
    ) -> Preview:
        """
        Serves `port` at a URL; a program may start to listen on it later. Only this response has the `access_token` of
        a private preview; `preview_link` puts it in a URL for a browser.

        `visibility`: default `private`. `ttl_ms`: milliseconds, default the remaining lifetime of the sandbox.
        """
        body = {"port": port, "visibility": visibility, "ttl_ms": ttl_ms}
        return await self._client.one(Preview, "preview", "openPreview", params=self._params, body=body, **call)

    async def list(self, **call: Unpack[PageOptions]) -> AsyncPage[Preview]:
        """Lists open previews, newest first."""
        return await self._client.page(Preview, "listSandboxPreviews", params=self._params, **call)

    async def close(self, preview_id: str, **call: Unpack[CallOptions]) -> Preview:
        """Closes a preview and all its connections at once. Idempotent."""
        params = {"previewId": preview_id}
        return await self._client.one(Preview, "preview", "deletePreview", params=params, **call)


class AsyncAllPreviews:
    """The previews of all sandboxes that the key can see."""

    def __init__(self, client: AsyncApiClient) -> None:
        self._client = client

    async def list(
        self, *, project_id: str | None = None, sandbox_id: str | None = None, **call: Unpack[PageOptions]
    ) -> AsyncPage[Preview]:
        """Lists open previews, newest first."""
        query = {"project_id": project_id, "sandbox_id": sandbox_id}
        return await self._client.page(Preview, "listPreviews", query=query, **call)

    async def get(self, preview_id: str, **call: Unpack[CallOptions]) -> Preview:
        """Returns a preview. Raises `NotFoundError`."""
        return await self._client.one(Preview, "preview", "getPreview", params={"previewId": preview_id}, **call)
