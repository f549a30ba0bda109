"""What belongs to an organization: projects, keys, secrets, quotas, usage, events, webhooks, the audit log."""

import json
import unittest

from support import client

import cloche
from cloche import Cloche


class Organization(unittest.TestCase):
    def test_has_projects_that_hold_sandboxes(self):
        project = client().projects.create("Python", metadata={"team": "sdk"}, quotas={"live_sandboxes": 2})
        self.assertEqual((project.metadata, project.quotas.live_sandboxes), ({"team": "sdk"}, 2))
        with client().sandboxes.create(project_id=project.id) as sandbox:
            self.assertEqual([each.id for each in client().sandboxes.list(project_id=project.id)], [sandbox.id])
            uses = client().quotas.list(project_id=project.id)
            live = next(each for each in uses if each.quota == "liveSandboxes")
            self.assertEqual((live.limit, live.used), (2, 1))
            with self.assertRaises(cloche.ConflictError) as caught:
                client().projects.delete(project.id)
            self.assertEqual(caught.exception.details["live_sandboxes"], 1)
        self.assertEqual(client().projects.update(project.id, name="Python 2").name, "Python 2")
        client().projects.delete(project.id)
        self.assertNotIn(project.id, [each.id for each in client().projects.list()])
        self.assertIn(project.id, [each.id for each in client().projects.list(include="deleted")])
        self.assertTrue(client().projects.get(project.id).deleted_at)

    def test_has_lists_that_are_walked_in_pages(self):
        made = [client().secrets.create(f"page-{n}", value="v", hosts=["example.com"]) for n in range(5)]
        whole = client().secrets.list()
        page = client().secrets.list(limit=2)
        self.assertEqual(([*page], page.has_more, whole.has_more), (whole[:2], True, False))
        self.assertEqual(list(page.auto_paging_iter()), whole)
        self.assertEqual(client().secrets.list(cursor=page.next_cursor), whole[2:])
        for secret in made:
            client().secrets.delete(secret.id)

    def test_has_keys_that_are_rotated_and_revoked(self):
        made = client().api_keys.create("rotating", scopes=["sandbox:read"])
        rotated = client().api_keys.rotate(made.api_key.id, grace_ms=0)
        with Cloche(api_key=rotated.secret) as other:
            current = other.api_keys.current()
            self.assertEqual((current.api_key.id, current.api_key.name), (rotated.api_key.id, "rotating"))
            client().api_keys.revoke(rotated.api_key.id)
            with self.assertRaises(cloche.UnauthorizedError):
                other.api_keys.current()
        self.assertNotIn(made.api_key.id, [each.id for each in client().api_keys.list()])
        self.assertIn(made.api_key.id, [each.id for each in client().api_keys.list(include_revoked=True)])

    def test_has_secrets_whose_values_never_come_back(self):
        secret = client().secrets.create("token", value="s3cret", hosts=["api.example.com"])
        self.assertEqual(
            client().secrets.update(secret.id, value="s3cret", hosts=["*.example.com"]).hosts, ["*.example.com"]
        )
        self.assertNotIn("s3cret", json.dumps(client().secrets.get(secret.id).to_dict()))
        with client().sandboxes.create(secrets={"TOKEN": secret.id}) as sandbox:
            self.assertNotIn("s3cret", sandbox.commands.run("echo $TOKEN").stdout)
        client().secrets.delete(secret.id)
        self.assertNotIn(secret.id, [each.id for each in client().secrets.list()])

    def test_has_events_an_audit_log_and_usage(self):
        after_seq = client().events.last_seq()
        with client().sandboxes.create() as sandbox:
            sandbox.wait_until_ready()
        seen: list[str] = []
        for event in client().events.stream(after_seq=after_seq, types=["sandbox.*"]):
            if event.data.sandbox.id == sandbox.id:
                seen.append(event.type)
            if seen[-1:] == ["sandbox.destroyed"]:
                break
        self.assertEqual(seen, ["sandbox.created", "sandbox.ready", "sandbox.destroyed"])
        page = client().events.list(after_seq=after_seq, limit=1)
        self.assertEqual((len(page.data), page.has_more), (1, True))
        audited = client().audit_events.all(target=sandbox.id)
        self.assertIn("sandbox.created", [each.action for each in audited])
        self.assertIsInstance(client().usage.list(group_by="hour"), list)


class Webhooks(unittest.TestCase):
    def test_are_created_changed_listed_and_deleted(self):
        made = client().webhooks.create("https://example.com/hook", events=["sandbox.*"], description="for tests")
        self.assertTrue(made.secret.startswith("whsec_"))
        self.assertEqual(client().webhooks.update(made.webhook.id, enabled=False).enabled, False)
        self.assertEqual(client().webhooks.get(made.webhook.id).events, ["sandbox.*"])
        self.assertNotEqual(client().webhooks.rotate_secret(made.webhook.id).secret, made.secret)
        self.assertEqual(client().webhooks.list_deliveries(made.webhook.id), [])
        self.assertIn(made.webhook.id, [each.id for each in client().webhooks.list()])
        client().webhooks.delete(made.webhook.id)
        self.assertNotIn(made.webhook.id, [each.id for each in client().webhooks.list()])

    def test_refuse_targets_in_private_ranges(self):
        with self.assertRaises(cloche.InvalidRequestError):
            client().webhooks.create("http://127.0.0.1:1/hook", events=["*"])
