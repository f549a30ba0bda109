"""Signatures of webhooks. The stage `python` compares them with what the server signs."""

import json
import unittest
from datetime import datetime, timezone

from support import SANDBOX

import cloche

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
EVENT = {"seq": 1, "id": "evt_1", "type": "sandbox.ready", "at": "x", "orgId": "org_1", "data": {"sandbox": SANDBOX}}


class WebhookMessages(unittest.TestCase):
    def test_that_are_signed_with_the_secret_are_events(self):
        body = json.dumps(EVENT)
        event = cloche.verify_webhook(body, cloche.sign_webhook(body, "msg_1", SECRET), SECRET)
        self.assertEqual((event.type, event.data.sandbox.id), ("sandbox.ready", SANDBOX["id"]))

    def test_that_changed_or_are_old_or_of_another_secret_are_refused(self):
        headers = cloche.sign_webhook("{}", "msg_1", SECRET)
        old = str(int(datetime.now(timezone.utc).timestamp()) - 400)
        wrong = [
            ("{ }", headers, SECRET),
            ("{}", headers, "whsec_AAAA"),
            ("{}", {**headers, "webhook-timestamp": old}, SECRET),
            ("{}", {**headers, "webhook-signature": "v1,"}, SECRET),
            ("{}", {**headers, "webhook-id": "msg_2"}, SECRET),
            ("{}", {}, SECRET),
            ("{}", headers, "no base64!"),
        ]
        for body, given, secret in wrong:
            with self.assertRaises(cloche.WebhookVerificationError):
                cloche.verify_webhook(body, given, secret)
        self.assertEqual(cloche.verify_webhook("{}", {name.title(): v for name, v in headers.items()}, SECRET), {})
