# SPDX-License-Identifier: Apache-2.0
"""The forms of a rich output as the protocol wants them: text, base64, or JSON that every parser accepts."""

import base64
import json
import math

from cloche_kernel.channel import MAX_FRAME_BYTES

# One frame holds all forms of one output; a quarter of it is for escapes.
MAX_FORMS_BYTES = MAX_FRAME_BYTES // 4 * 3

_MAX_DEPTH = 64


def to_forms(bundle):
    """A display bundle (MIME type to value) with values that can be sent; the largest go first if it is too much."""
    text = bundle.get("text/plain")
    if len(bundle) == 1 and type(text) is str and len(text) <= MAX_FORMS_BYTES:
        return {"text/plain": text}
    forms = {}
    budget = MAX_FORMS_BYTES
    sized = [_form(mime, value) for mime, value in bundle.items() if isinstance(mime, str) and value is not None]
    for (mime, value), size in sorted(sized, key=lambda form: form[1]):
        if size > budget:
            # Below the text that there is: what is left out is said.
            forms["text/plain"] = "\n".join([*filter(None, [forms.get("text/plain")]), left_out(mime, size)])
            continue
        budget -= size
        forms[mime] = value
    return {mime: forms[mime] for mime in [*bundle, "text/plain"] if mime in forms}


def left_out(mime, size):
    return f"[cloche: {mime} output of {size} bytes left out, the kernel sends at most {MAX_FORMS_BYTES} bytes]"


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
    """`value` in terms of JSON: what JSON cannot say (NaN, infinities) is null, what it does not know is text."""
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
        # Their `item` is a bare number.
        return str(value)
    if hasattr(value, "item") and getattr(value, "shape", None) == ():
        scalar = value.item()
        return str(value) if scalar is value else json_safe(scalar, depth + 1)
    if hasattr(value, "tolist"):
        return json_safe(value.tolist(), depth + 1)
    return str(value)
