# SPDX-License-Identifier: Apache-2.0
"""Prepares the forms of a rich output, by MIME type, for the protocol: text, base64, or strictly valid JSON."""

import base64
import json
import math

from cloche_kernel.channel import MAX_FRAME_BYTES

# All forms of an output go into one frame. A quarter of the frame is reserved for JSON escapes.
MAX_FORMS_BYTES = MAX_FRAME_BYTES // 4 * 3

_MAX_DEPTH = 64
# Values that fit into a frame with eight bytes each, its comma included.
_MAX_VALUES = MAX_FORMS_BYTES // 8


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
        try:
            safe = json_safe(value)
        except TooManyValues:
            return (mime, None), MAX_FORMS_BYTES + 1
        return (mime, safe), len(json.dumps(safe))
    text = value if isinstance(value, str) else str(value)
    return (mime, text), len(text)


class TooManyValues(ValueError):
    """A value has more parts than fit into a frame, since lists and dictionaries that occur in it twice count twice."""


def json_safe(value):
    """Returns `value` as JSON types. NaN and infinities become null; objects of unknown types become text.

    A list or dictionary within itself becomes text, too. Raises `TooManyValues`.
    """
    return _json_safe(value, [], [_MAX_VALUES])


def _json_safe(value, outer, left):
    """`outer` has the ids of the lists and dictionaries around `value`, `left` the number of values that may follow."""
    left[0] -= 1
    if left[0] < 0:
        raise TooManyValues(f"more than {_MAX_VALUES} values")
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if len(outer) >= _MAX_DEPTH or id(value) in outer:
        return str(value)
    within = [*outer, id(value)]
    if isinstance(value, dict):
        return {str(key): _json_safe(item, within, left) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_json_safe(item, within, left) for item in value]
    if type(value).__name__ in ("datetime64", "timedelta64"):
        # `item()` would return a number without its unit.
        return str(value)
    if hasattr(value, "item") and getattr(value, "shape", None) == ():
        scalar = value.item()
        return str(value) if scalar is value else _json_safe(scalar, within, left)
    if hasattr(value, "tolist"):
        return _json_safe(value.tolist(), within, left)
    return str(value)
