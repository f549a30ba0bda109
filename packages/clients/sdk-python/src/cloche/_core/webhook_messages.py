"""Signatures of the messages that webhooks send, as in the Standard Webhooks specification."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import time
from collections.abc import Mapping
from typing import Any

from cloche._core.model import decode_any, known_types, part
from cloche._generated.models import ResourceEvent

_TOLERANCE_S = 300


class WebhookVerificationError(Exception):
    """The message was not signed with the secret, or is too old."""


def verify_webhook(body: str | bytes, headers: Mapping[str, str], secret: str) -> ResourceEvent | dict[str, Any]:
    """
    Checks a message that a webhook has sent, and returns its event; the test event is a dictionary. An event may arrive
    again: its `id` stays the same.

    `body`: as it was received, before it is parsed. `secret`: that of the webhook, `whsec_…`.

    Raises `WebhookVerificationError` if the message was not signed with the secret, or is older than five minutes.

    >>> body = '{"type": "webhook.test"}'
    >>> verify_webhook(body, sign_webhook(body, "evt_1", "whsec_c2VjcmV0"), "whsec_c2VjcmV0")
    {'type': 'webhook.test'}
    """
    fields = {name.lower(): value for name, value in headers.items()}
    names = ("webhook-id", "webhook-timestamp", "webhook-signature")
    message_id, timestamp, signatures = (fields.get(name, "") for name in names)
    if not timestamp.isdecimal() or abs(time.time() - int(timestamp[:15])) > _TOLERANCE_S:
        raise WebhookVerificationError("The time of the message is missing, or more than five minutes away.")
    expected = _signature(body, message_id, timestamp, secret)
    given = [each.removeprefix("v1,") for each in signatures.split(" ") if each.startswith("v1,")]
    if not any(hmac.compare_digest(each.encode(), expected.encode()) for each in given):
        raise WebhookVerificationError("No signature of the message matches the secret.")
    event: Any = json.loads(body)
    return decode_any(ResourceEvent, event) if part(event, "type") in known_types(ResourceEvent) else event


def sign_webhook(body: str | bytes, message_id: str, secret: str) -> dict[str, str]:
    """Returns the header fields with which a webhook would send `body`, for tests of a receiver."""
    timestamp = str(int(time.time()))
    signature = _signature(body, message_id, timestamp, secret)
    return {"webhook-id": message_id, "webhook-timestamp": timestamp, "webhook-signature": f"v1,{signature}"}


def _signature(body: str | bytes, message_id: str, timestamp: str, secret: str) -> str:
    try:
        key = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    except binascii.Error as cause:
        raise WebhookVerificationError("The secret is not one of a webhook: it begins with whsec_.") from cause
    content = body.encode() if isinstance(body, str) else body
    signed = f"{message_id}.{timestamp}.".encode() + content
    return base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
