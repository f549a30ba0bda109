# SPDX-License-Identifier: Apache-2.0
"""Prepares the forms of a rich output, by MIME type, for the protocol: text, base64, or strictly valid JSON."""

import base64
import json
import math

from cloche_kernel.channel import MAX_FRAME_BYTES

# All forms of an output go into one frame. A quarter of the frame is reserved for JSON escapes.
MAX_FORMS_BYTES = MAX_FRAME_BYTES // 4 * 3

_MAX_DEPTH = 64


def to_forms(bundle):
    """Returns a display bundle (MIME type to value) with values that can be sent, all within `MAX_FORMS_BYTES`.

    Forms that do not fit are left out, the largest first, and a note in `text/plain` names each of them.
    """
    text = bundle.get("text/plain")
    if len(bundle) == 1 and type(text) is str and len(text) <= MAX_FORMS_BYTES:
        return {"text/plain": text}
    forms = {}
    budget = MAX_FORMS_BYTES
    sized = [_form(mime, value) for mime, value in bundle.items() if isinstance(mime, str) and value is not None]
    for (mime, value), size in sorted(sized, key=lambda form: form[1]):
        if size > budget:
            forms["text/plain"] = "\n".join([*filter(None, [forms.get("text/plain")]), left_out(mime, size)])
            continue
        budget -= size
        forms[mime] = value
    return {mime: forms[mime] for mime in [*bundle, "text/plain"] if mime in forms}


def left_out(mime, size, limit=MAX_FORMS_BYTES):
    """Returns the note that stands in for a form that is larger than `limit`."""
    return f"[cloche: {mime} output of {size} bytes left out, the kernel sends at most {limit} bytes]"


def _form(mime, value):
    if isinstance(value, (bytes, bytearray, memoryview)):
        text = base64.b64encode(value).decode("ascii")
        return (mime, text), len(text)
    if mime == "application/json" or mime.endswith("+json"):
        safe = json_safe(value)
        return (mime, safe), len(json.dumps(safe))
    text = value if isinstance(value, str) else str(value)
    return (mime, text), len(text)


def json_safe(value, depth=0):
    """Returns `value` as JSON types. NaN and infinities become null; objects of unknown types become text."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if depth >= _MAX_DEPTH:
        return str(value)
    if isinstance(value, dict):
        return {str(key): json_safe(item, depth + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_safe(item, depth + 1) for item in value]
    if type(value).__name__ in ("datetime64", "timedelta64"):
        # `item()` would return a number without its unit.
        return str(value)
    if hasattr(value, "item") and getattr(value, "shape", None) == ():
        scalar = value.item()
        return str(value) if scalar is value else json_safe(scalar, depth + 1)
    if hasattr(value, "tolist"):
        return json_safe(value.tolist(), depth + 1)
    return str(value)
