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
from cloche._core.model import decode, part
from cloche._core.options import call_options
from cloche._generated.models import CurrentSandboxMetrics
from cloche._generated.models import Sandbox as SandboxInfo

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from cloche._async.sandbox import CreateSandboxOptions
    from cloche._core.options import CallOptions, SelectionOptions
    from cloche._generated.bodies import GetOrCreateSandbox

    class GetOrCreateOptions(GetOrCreateSandbox, CallOptions):
        """Fields of the sandbox, and options of the call."""


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

    async def get_or_create(self, name: str, **options: Unpack[GetOrCreateOptions]) -> tuple[AsyncSandbox, bool]:
        """
        Returns the sandbox that has the name, as it is, or creates it; and whether this call has created it. It is not
        destroyed by itself: its lifetime and `kill` end it.

        Raises `ConflictError` if there is one with another template, resources, network policy or secrets than given:
        `details["differs"]` names the fields.

        >>> first, created = await cloche.sandboxes.get_or_create("web-app")
        >>> again, created_again = await cloche.sandboxes.get_or_create("web-app")
        >>> (first.id == again.id, created, created_again)
        (True, True, False)
        """
        body: dict[str, Any] = dict(options)
        call = call_options(body)
        answer = await self._client.call("getOrCreateSandbox", params={"name": name}, body=body, **call)
        return AsyncSandbox(self._client, decode(SandboxInfo, part(answer, "sandbox"))), part(answer, "created")

    async def get_by_name(
        self, name: str, *, project_id: str | None = None, **call: Unpack[CallOptions]
    ) -> AsyncSandbox:
        """Returns the sandbox that has the name and has not ended. Raises `NotFoundError`."""
        request: dict[str, Any] = {"params": {"name": name}, "query": {"project_id": project_id}, **call}
        info = await self._client.one(SandboxInfo, "sandbox", "getSandboxByName", **request)
        return AsyncSandbox(self._client, info)

    async def list(
        self,
        *,
        metadata: Mapping[str, str] | None = None,
        project_id: str | None = None,
        status: str | None = None,
        paused: bool | None = None,
        include: Literal["historical"] | None = None,
        name: str | None = None,
        **call: Unpack[SelectionOptions],
    ) -> AsyncPage[AsyncSandbox]:
        """
        Lists sandboxes, newest first. `metadata`: labels that they must have, all of them. `include="historical"` also
        lists destroyed and failed ones.
        """
        query: dict[str, Any] = {"project_id": project_id, "status": status, "paused": paused, "include": include}
        query |= {"name": name, **label_query(metadata)}
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
