"""The sandboxes that a key can see."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from cloche._async.client import AsyncApiClient
from cloche._async.pages import AsyncPage
from cloche._async.runtime import Opened
from cloche._async.sandbox import AsyncSandbox
from cloche._core.labels import label_query
from cloche._generated.models import CurrentSandboxMetrics
from cloche._generated.models import Sandbox as SandboxInfo

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from cloche._async.sandbox import CreateSandboxOptions
    from cloche._core.options import CallOptions, SelectionOptions


class AsyncSandboxes:
    """The sandboxes that the key can see."""

    def __init__(self, client: AsyncApiClient) -> None:
        self._client = client

    def create(self, **options: Unpack[CreateSandboxOptions]) -> Opened[AsyncSandbox]:
        """
        Creates a sandbox, and returns while it is still `creating`; operations sent at once wait until it is ready.
        `with` destroys it at the end of the block.

        `ttl_ms`: lifetime in milliseconds, default and at most an hour.

        Raises `InvalidRequestError`, `SandboxTtlExceededError`, `QuotaExceededError`.

        >>> async with cloche.sandboxes.create(network_policy={"mode": "deny-all"}) as offline:
        ...     offline.info.network_policy.mode
        'deny-all'
        """
        return AsyncSandbox.create(client=self._client, **options)

    async def list(
        self,
        *,
        metadata: Mapping[str, str] | None = None,
        project_id: str | None = None,
        status: str | None = None,
        paused: bool | None = None,
        include: Literal["historical"] | None = None,
        **call: Unpack[SelectionOptions],
    ) -> AsyncPage[AsyncSandbox]:
        """
        Lists sandboxes, newest first. `metadata`: labels that they must have, all of them. `include="historical"` also
        lists destroyed and failed ones.
        """
        query: dict[str, Any] = {"project_id": project_id, "status": status, "paused": paused, "include": include}
        query |= label_query(metadata)
        show = partial(AsyncSandbox, self._client)
        return await self._client.page(SandboxInfo, "listSandboxes", show, query=query, **call)

    async def get(self, sandbox_id: str, **call: Unpack[CallOptions]) -> AsyncSandbox:
        """Returns a sandbox, also a destroyed one. Raises `NotFoundError`."""
        params = {"sandboxId": sandbox_id}
        info = await self._client.one(SandboxInfo, "sandbox", "getSandbox", params=params, **call)
        return AsyncSandbox(self._client, info)

    async def metrics(
        self, *, project_id: str | None = None, limit: int | None = None, **call: Unpack[CallOptions]
    ) -> list[CurrentSandboxMetrics]:
        """Measures the newest sandboxes that are ready, in one request. `limit`: at most 500, default 100."""
        query = {"project_id": project_id, "limit": limit}
        return await self._client.many(CurrentSandboxMetrics, "listSandboxMetrics", query=query, **call)
