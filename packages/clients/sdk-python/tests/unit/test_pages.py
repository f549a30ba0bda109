"""Lists that are read page by page, by both clients."""

import copy
import pickle
import unittest
from datetime import datetime, timezone
from typing import Any

import httpx
from test_operations import example

from cloche import AsyncCloche, Cloche, models

IDS = ["prj_5", "prj_4", "prj_3", "prj_2", "prj_1"]


class Service:
    """Serves lists of projects. A cursor is the index of the first entry of its page."""

    def __init__(self) -> None:
        self.queries: list[dict[str, str]] = []
        transport = httpx.MockTransport(self._answer)
        self.options: Any = {"url": "http://cloche.test", "api_key": "k", "transport": transport}

    def _answer(self, request: httpx.Request) -> httpx.Response:
        query = dict(request.url.params)
        self.queries.append(query)
        start = int(query.get("cursor", 0))
        end = start + int(query.get("limit", len(IDS)))
        kind = models.Sandbox if request.url.path == "/v1/sandboxes" else models.Project
        body = {"data": [example(kind) | {"id": each} for each in IDS[start:end]], "hasMore": end < len(IDS)}
        return httpx.Response(200, json=body | ({"nextCursor": str(end)} if end < len(IDS) else {}))


class Pages(unittest.TestCase):
    def test_a_list_is_whole_without_a_limit(self):
        service = Service()
        with Cloche(**service.options) as client:
            found = client.projects.list()
        self.assertEqual(([each.id for each in found], found.has_more, found.next_cursor), (IDS, False, None))
        self.assertEqual(found, list(found))
        self.assertEqual(service.queries, [{}])

    def test_a_page_says_how_to_request_the_next(self):
        service = Service()
        with Cloche(**service.options) as client:
            first = client.projects.list(limit=3)
            second = client.projects.list(limit=3, cursor=first.next_cursor)
        self.assertEqual((first.has_more, second.has_more), (True, False))
        self.assertEqual([each.id for each in [*first, *second]], IDS)

    def test_iteration_over_all_pages_holds_one_and_keeps_the_filters(self):
        service = Service()
        since = datetime(2026, 1, 1, tzinfo=timezone.utc)
        with Cloche(**service.options) as client:
            page = client.sandboxes.list(limit=2, id_prefix="sbx_abcd", created_after=since, metadata={"a": "b"})
            seen = [(each.id, len(service.queries)) for each in page.auto_paging_iter()]
        self.assertEqual(seen, list(zip(IDS, [1, 1, 2, 2, 3], strict=True)))
        sent = {"limit": "2", "idPrefix": "sbx_abcd", "createdAfter": "2026-01-01T00:00:00.000Z", "metadata.a": "b"}
        self.assertEqual(service.queries, [sent, sent | {"cursor": "2"}, sent | {"cursor": "4"}])

    def test_copies_are_plain_lists(self):
        with Cloche(**Service().options) as client:
            page = client.projects.list(limit=2)
        for copied in (pickle.loads(pickle.dumps(page)), copy.copy(page), copy.deepcopy(page)):
            self.assertEqual((type(copied), [each.id for each in copied]), (list, IDS[:2]))


class AsynchronousPages(unittest.IsolatedAsyncioTestCase):
    async def test_are_requested_as_the_loop_reaches_them(self):
        service = Service()
        async with AsyncCloche(**service.options) as client:
            page = await client.projects.list(limit=2, cursor="1")
            seen = [(each.id, len(service.queries)) async for each in page.auto_paging_iter()]
        self.assertEqual(seen, list(zip(IDS[1:], [1, 1, 2, 2], strict=True)))
