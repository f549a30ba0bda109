"""Webhooks: addresses that receive events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from cloche._async.client import AsyncApiClient
from cloche._async.pages import AsyncPage
from cloche._core.model import decode, part
from cloche._generated.models import Webhook, WebhookDelivery

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from cloche._core.options import CallOptions, PageOptions


class WebhookWithSecret(NamedTuple):
    """A webhook and its secret, which cannot be shown again."""

    webhook: Webhook
    secret: str


class AsyncWebhooks:
    """The webhooks of the organization, as far as the key may see them."""

    def __init__(self, client: AsyncApiClient) -> None:
        self._client = client

    async def create(
        self,
        url: str,
        *,
        events: Sequence[str],
        project_id: str | None = None,
        description: str | None = None,
        **call: Unpack[CallOptions],
    ) -> WebhookWithSecret:
        """
        Creates a webhook: `url` receives the events from now on. Only this response has the secret; pass it to
        `verify_webhook` in the receiver.

        `events`: types such as `sandbox.failed`, `sandbox.*`, or `*`. `project_id`: default every project.
        """
        body = {"url": url, "events": list(events), "project_id": project_id, "description": description}
        return _with_secret(await self._client.call("createWebhook", body=body, **call))

    async def list(self, *, project_id: str | None = None, **call: Unpack[PageOptions]) -> AsyncPage[Webhook]:
        """Lists the webhooks that are not deleted, newest first."""
        return await self._client.page(Webhook, "listWebhooks", query={"project_id": project_id}, **call)

    async def get(self, webhook_id: str, **call: Unpack[CallOptions]) -> Webhook:
        """Returns a webhook. Raises `NotFoundError`."""
        return await self._client.one(Webhook, "webhook", "getWebhook", params={"webhookId": webhook_id}, **call)

    async def update(
        self,
        webhook_id: str,
        *,
        url: str | None = None,
        events: Sequence[str] | None = None,
        enabled: bool | None = None,
        **call: Unpack[CallOptions],
    ) -> Webhook:
        """Sets the given fields. A new URL, or `enabled=True`, retries failed deliveries at once."""
        body = {"url": url, "events": None if events is None else list(events), "enabled": enabled}
        params = {"webhookId": webhook_id}
        return await self._client.one(Webhook, "webhook", "updateWebhook", params=params, body=body, **call)

    async def delete(self, webhook_id: str, **call: Unpack[CallOptions]) -> Webhook:
        """Deletes a webhook, its secret and its deliveries. Idempotent."""
        return await self._client.one(Webhook, "webhook", "deleteWebhook", params={"webhookId": webhook_id}, **call)

    async def rotate_secret(self, webhook_id: str, **call: Unpack[CallOptions]) -> WebhookWithSecret:
        """Replaces the secret. For 24 hours, messages are signed with both."""
        return _with_secret(await self._client.call("rotateWebhookSecret", params={"webhookId": webhook_id}, **call))

    async def test(self, webhook_id: str, **call: Unpack[CallOptions]) -> WebhookDelivery:
        """Sends an event of type `webhook.test` once, and returns the result, at most 15 seconds later."""
        params = {"webhookId": webhook_id}
        return await self._client.one(WebhookDelivery, "delivery", "testWebhook", params=params, **call)

    async def list_deliveries(
        self,
        webhook_id: str,
        *,
        after_seq: int | None = None,
        limit: int | None = None,
        **call: Unpack[CallOptions],
    ) -> list[WebhookDelivery]:
        """Returns a page of deliveries, oldest first. Continue with the last `seq` as `after_seq` until it is empty."""
        params, query = {"webhookId": webhook_id}, {"after_seq": after_seq, "limit": limit}
        return await self._client.many(WebhookDelivery, "listWebhookDeliveries", params=params, query=query, **call)

    async def resend(self, webhook_id: str, delivery_id: str, **call: Unpack[CallOptions]) -> WebhookDelivery:
        """Retries a delivery at once. Returns it as `pending`."""
        params = {"webhookId": webhook_id, "deliveryId": delivery_id}
        return await self._client.one(WebhookDelivery, "delivery", "resendWebhookDelivery", params=params, **call)


def _with_secret(answer: Any) -> WebhookWithSecret:
    return WebhookWithSecret(decode(Webhook, part(answer, "webhook")), decode(str, part(answer, "secret")))
