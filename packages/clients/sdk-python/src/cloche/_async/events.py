"""Events of resources, and the audit log."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from cloche._async.client import AsyncApiClient
from cloche._async.streams import stream_resumed
from cloche._core.event_reading import EventReader
from cloche._generated.models import AuditEvent, AuditEventPage, EventPage, ResourceEvent

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from cloche._core.options import CallOptions

_LAST_SEQ = 2**53 - 1


class AsyncEvents:
    """The events of the resources that the key can see."""

    def __init__(self, client: AsyncApiClient) -> None:
        self._client = client

    async def list(
        self,
        *,
        after_seq: int | None = None,
        limit: int | None = None,
        types: Sequence[str] = (),
        project_id: str | None = None,
        **call: Unpack[CallOptions],
    ) -> EventPage:
        """
        Returns a page of events, oldest first. Continue with `next_seq` as `after_seq` while `has_more`; a page may be
        empty although more follow.

        `limit`: at most 500, default 100. `types`: such as `sandbox.failed`, or `sandbox.*` for all of a resource.
        """
        query = {**_query(types, project_id), "after_seq": after_seq, "limit": limit}
        return await self._client.whole(EventPage, "listEvents", query=query, **call)

    async def last_seq(self, **call: Unpack[CallOptions]) -> int:
        """Returns the `seq` of the newest event, 0 if there is none. Events that follow it are new."""
        return (await self.list(after_seq=_LAST_SEQ, limit=1, **call)).next_seq

    def stream(
        self,
        *,
        after_seq: int = 0,
        types: Sequence[str] = (),
        project_id: str | None = None,
        **call: Unpack[CallOptions],
    ) -> AsyncGenerator[ResourceEvent, None]:
        """
        Yields the events after `after_seq`, then each new one, until the caller leaves the loop. Resumes an interrupted
        stream without losing or repeating an event, and waits up to 30 seconds for an unreachable service.

        >>> async for event in cloche.events.stream(types=["sandbox.created"]):
        ...     print(event.type, event.data.sandbox.id[:4])
        ...     break
        sandbox.created sbx_
        """
        return stream_resumed(
            self._client,
            "streamEvents",
            lambda: EventReader[ResourceEvent](ResourceEvent),
            lambda event: event.seq,
            lambda event: False,
            after_seq=after_seq,
            query=_query(types, project_id),
            **call,
        )


def _query(types: Sequence[str], project_id: str | None) -> dict[str, Any]:
    return {"types": ",".join(types) or None, "project_id": project_id}


class AsyncAuditEvents:
    """The audit log of the organization: who did what."""

    def __init__(self, client: AsyncApiClient) -> None:
        self._client = client

    async def list(
        self,
        *,
        after_seq: int | None = None,
        limit: int | None = None,
        actor: str | None = None,
        action: str | None = None,
        target: str | None = None,
        from_: datetime | str | None = None,
        to: datetime | str | None = None,
        **call: Unpack[CallOptions],
    ) -> AuditEventPage:
        """
        Returns a page of audit events, oldest first. Continue with `next_seq` as `after_seq` while `has_more`; `all`
        does this.

        `limit`: at most 500, default 100. `actor`: id of an API key, `operator` or `system`. `action`: such as
        `sandbox.created`. `target`: id of the resource. `from_`, `to`: times from, and before, which it happened.
        """
        query = {"after_seq": after_seq, "limit": limit, "actor": actor, "action": action, "target": target}
        query |= {"from_": from_, "to": to}
        return await self._client.whole(AuditEventPage, "listAuditEvents", query=query, **call)

    async def all(
        self,
        *,
        after_seq: int = 0,
        actor: str | None = None,
        action: str | None = None,
        target: str | None = None,
        from_: datetime | str | None = None,
        to: datetime | str | None = None,
        **call: Unpack[CallOptions],
    ) -> AsyncGenerator[AuditEvent, None]:
        """Yields every audit event that matches, oldest first, and requests a page at a time."""
        has_more = True
        while has_more:
            page = await self.list(
                after_seq=after_seq, actor=actor, action=action, target=target, from_=from_, to=to, **call
            )
            for event in page.data:
                yield event
            after_seq, has_more = page.next_seq, page.has_more
