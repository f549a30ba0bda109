"""Names of sandboxes: what the clients send, and what they return."""

import json
import unittest
from typing import Any

import httpx
from support import SANDBOX

from cloche import Cloche


class Names(unittest.TestCase):
    def setUp(self):
        self.sent: list[tuple[str, str, Any]] = []
        transport = httpx.MockTransport(self._answer)
        self.client = Cloche(url="http://cloche.test", api_key="k", transport=transport)
        self.addCleanup(self.client.close)

    def _answer(self, request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content) if request.content else None
        self.sent.append((request.method, str(request.url.raw_path, "ascii"), body))
        return httpx.Response(200, json={"sandbox": {**SANDBOX, "name": "web"}, "created": True})

    def test_find_a_sandbox_or_create_it(self):
        sandbox, created = self.client.sandboxes.get_or_create("web", ttl_ms=60_000, max_retries=0)
        self.assertEqual((sandbox.info.name, created), ("web", True))
        self.assertEqual(self.sent[-1], ("PUT", "/v1/sandboxes/by-name/web", {"ttlMs": 60_000}))
        self.client.sandboxes.get_by_name("web", project_id="prj_1")
        self.assertEqual(self.sent[-1], ("GET", "/v1/sandboxes/by-name/web?projectId=prj_1", None))

    def test_are_given_kept_and_removed(self):
        sandbox = self.client.sandboxes.get("sbx_1")
        for given, body in [
            ({"name": "web"}, {"name": "web"}),
            ({"name": ""}, {"name": None}),
            ({"name": None, "metadata": {"a_b": "c"}}, {"metadata": {"a_b": "c"}}),
            ({}, {}),
        ]:
            self.assertIs(sandbox.update(**given), sandbox)
            self.assertEqual(self.sent[-1], ("PATCH", f"/v1/sandboxes/{sandbox.id}", body))
