"""Sandboxes and the failures of their calls."""

import unittest

from support import client

import cloche
from cloche import Cloche, Sandbox


class Sandboxes(unittest.TestCase):
    def test_are_created_listed_by_labels_and_destroyed_at_the_end_of_the_block(self):
        with client().sandboxes.create(ttl_ms=600_000, metadata={"my_label": "a b"}) as sandbox:
            found = client().sandboxes.list(metadata={"my_label": "a b"})
            self.assertEqual([each.id for each in found], [sandbox.id])
            self.assertEqual(sandbox.info.metadata, {"my_label": "a b"})
            self.assertEqual(sandbox.info.network_policy.mode, "unrestricted")
            self.assertIn(sandbox.wait_until_ready().info.status, ("ready", "running", "idle"))
            before = sandbox.info.expires_at
            self.assertGreater(sandbox.set_ttl(3_000_000).info.expires_at, before)
        self.assertEqual((sandbox.info.status, sandbox.info.destroyed_reason), ("destroyed", "user_killed"))
        self.assertEqual(client().sandboxes.get(sandbox.id).info.status, "destroyed")
        with self.assertRaises(cloche.SandboxDestroyedError) as caught:
            sandbox.run("1")
        self.assertEqual(caught.exception.details, {"reason": "user_killed"})

    def test_made_without_a_client_use_the_environment_and_close_their_connections(self):
        with Sandbox.create(ttl_ms=60_000) as sandbox:
            self.assertEqual(sandbox.run("print(2)").stdout, "2\n")
        with self.assertRaises(RuntimeError):
            sandbox.refresh()

    def test_are_made_once_for_one_key(self):
        one = client().sandboxes.create(idempotency_key="python-sdk-once")
        other = client().sandboxes.create(idempotency_key="python-sdk-once")
        self.assertEqual(one.id, other.id)
        one.kill()
        with self.assertRaises(cloche.IdempotencyKeyReusedError) as caught:
            client().sandboxes.create(idempotency_key="python-sdk-once", ttl_ms=1000)
        self.assertEqual(caught.exception.idempotency_key, "python-sdk-once")

    def test_are_measured_and_counted(self):
        with client().sandboxes.create() as sandbox:
            sandbox.wait_until_ready()
            self.assertGreater(sandbox.metrics().limits.memory_bytes, 0)
            self.assertIn(sandbox.id, [each.sandbox_id for each in client().sandboxes.metrics(limit=500)])
            self.assertGreaterEqual(sandbox.usage().cpu_ms, 0)


class Failures(unittest.TestCase):
    def test_have_the_class_code_and_details_of_the_catalogue(self):
        with self.assertRaises(cloche.SandboxTtlExceededError) as caught:
            client().sandboxes.create(ttl_ms=7_200_000)
        error = caught.exception
        self.assertEqual((error.code, error.status), ("sandbox_ttl_exceeded", 422))
        self.assertEqual(error.details, {"max_ttl_ms": 3_600_000})
        self.assertRegex(error.request_id or "", "^req_")
        with self.assertRaises(cloche.InvalidRequestError) as caught:
            client().sandboxes.create(network_policy={"mode": "allowlist", "hosts": ["UPPER"]})
        self.assertEqual(caught.exception.details["issues"][0]["path"], "body.networkPolicy.hosts.0")
        with self.assertRaises(cloche.NotFoundError):
            client().sandboxes.get("sbx_unknown")

    def test_of_a_key_are_told_apart(self):
        with Cloche(api_key="clk_wrong") as stranger, self.assertRaises(cloche.UnauthorizedError):
            stranger.sandboxes.list()
        key = client().api_keys.create("reader", scopes=["sandbox:read"])
        with Cloche(api_key=key.secret) as reader, self.assertRaises(cloche.ForbiddenError) as caught:
            reader.sandboxes.create()
        self.assertEqual(caught.exception.details, {"required_scope": "sandbox:create"})
