"""Pauses and wakes of sandboxes: what the clients send, and what they show of the answers."""

import json
import unittest
from typing import Any

import httpx
from support import SANDBOX

from cloche import AsyncCloche, Cloche

PAUSED = {"at": "2030-01-01T00:00:00Z", "by": "request", "memory": "kept", "place": "memory"}
# What the caller gives, and the body that is sent.
CALLS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("pause", {}, {"force": False}),
    ("pause", {"force": True}, {"force": True}),
    ("pause", {"memory": "drop"}, {"force": False, "memory": "drop"}),
    ("resume", {"memory": "drop"}, {"memory": "drop"}),
    ("pause", {"retain_ms": 86_400_000}, {"force": False, "retainMs": 86_400_000}),
    ("pause", {"retain_ms": None, "timeout_ms": 5_000}, {"force": False}),
    ("resume", {}, {}),
    ("resume", {"ttl_ms": None, "max_retries": 0}, {}),
    ("resume", {"ttl_ms": 1_800_000}, {"ttlMs": 1_800_000}),
]


class Service:
    """Answers with a sandbox that is paused if it was asked to be."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, Any]] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        verb = request.url.path.rsplit("/", 1)[-1]
        if request.method == "POST":
            self.sent.append((verb, json.loads(request.content)))
        return httpx.Response(200, json={"sandbox": {**SANDBOX, **({"paused": PAUSED} if verb == "pause" else {})}})


class Pauses(unittest.IsolatedAsyncioTestCase):
    def test_send_what_the_caller_gives_and_update_the_sandbox(self):
        service = Service()
        with Cloche(url="http://cloche.test", api_key="k", transport=httpx.MockTransport(service)) as client:
            sandbox = client.sandboxes.get("sbx_1")
            for verb, given, body in CALLS:
                self.assertIs(getattr(sandbox, verb)(**given), sandbox)
                self.assertEqual(service.sent[-1], (verb, body))
                self.assertEqual(sandbox.info.paused is not None, verb == "pause")

    async def test_are_the_same_for_coroutines(self):
        service = Service()
        async with AsyncCloche(url="http://cloche.test", api_key="k", transport=httpx.MockTransport(service)) as client:
            sandbox = await client.sandboxes.get("sbx_1")
            for verb, given, body in CALLS:
                self.assertIs(await getattr(sandbox, verb)(**given), sandbox)
                self.assertEqual(service.sent[-1], (verb, body))
                self.assertEqual(sandbox.info.paused is not None, verb == "pause")
