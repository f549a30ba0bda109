"""Names of fields, in both spellings."""

import json
import pickle
import unittest
from datetime import datetime, timezone
from typing import get_type_hints

from cloche import SandboxTtlExceededError, UnexpectedResponseError, models
from cloche._core.model import Model, decode
from cloche._core.names import camel, snake, to_wire


class Names(unittest.TestCase):
    def test_of_all_models_are_the_same_after_there_and_back(self):
        kinds = [each for each in vars(models).values() if isinstance(each, type) and issubclass(each, Model)]
        self.assertGreater(len(kinds), 90)
        for kind in kinds:
            for name in get_type_hints(kind):
                if not name.startswith("_"):
                    self.assertEqual(snake(camel(name)), name.rstrip("_"), kind)

    def test_in_bodies_become_those_of_the_service_but_for_keys_of_the_caller(self):
        body = {"ttl_ms": 1, "metadata": {"my_key": "a"}, "network_policy": {"mode": "deny-all"}, "project_id": None}
        wire = {"ttlMs": 1, "metadata": {"my_key": "a"}, "networkPolicy": {"mode": "deny-all"}}
        self.assertEqual(to_wire(body), wire)
        self.assertEqual(
            to_wire({"from_": [{"setup_steps": 1}], "metadata.a_b": "c"}),
            {"from": [{"setupSteps": 1}], "metadata.a_b": "c"},
        )
        self.assertEqual(to_wire(datetime(2030, 1, 2, tzinfo=timezone.utc)), "2030-01-02T00:00:00.000Z")


class Models(unittest.TestCase):
    def test_are_compared_copied_and_shown_by_their_fields_and_do_not_change(self):
        policy = decode(models.NetworkPolicy, {"mode": "allowlist", "hosts": ["a"]})
        self.assertEqual(policy, models.NetworkPolicy(mode="allowlist", hosts=["a"]))
        self.assertEqual(repr(policy), "NetworkPolicy(mode='allowlist', hosts=['a'])")
        self.assertEqual(pickle.loads(pickle.dumps(policy)), policy)
        self.assertEqual(json.dumps(policy.to_dict()), '{"mode": "allowlist", "hosts": ["a"]}')
        with self.assertRaises(AttributeError):
            policy.mode = "deny-all"

    def test_have_none_for_null_only_where_the_contract_allows_it(self):
        quota = {
            "scope": "project",
            "projectId": "prj_1",
            "quota": "liveSandboxes",
            "unit": "x",
            "used": 1,
            "limit": None,
        }
        self.assertIsNone(decode(models.QuotaUse, quota).limit)
        for wrong in ({**quota, "used": None}, {key: quota[key] for key in quota if key != "limit"}):
            with self.assertRaises(UnexpectedResponseError):
                decode(models.QuotaUse, wrong)

    def test_of_errors_survive_the_way_between_processes(self):
        error = SandboxTtlExceededError("sandbox_ttl_exceeded", "m", details={"max_ttl_ms": 1}, request_id="req_1")
        copy = pickle.loads(pickle.dumps(error))
        self.assertEqual((str(copy), copy.details), (str(error), error.details))
        self.assertEqual(str(error), "sandbox_ttl_exceeded: m (request req_1)")
