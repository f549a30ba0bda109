# SPDX-License-Identifier: Apache-2.0
"""Answers requests of Jupyter's clients about code that is not executed: completions, descriptions, completeness."""

from typing import Any

from IPython.core.completer import provisionalcompleter, rectify_completions
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.tokenutil import token_at_cursor

MAX_MATCHES = 1000


def complete(shell, content):
    """Returns the content of a `complete_reply`."""
    if shell.Completer is None:
        # Not done at the start of a kernel, as most contexts never complete code.
        InteractiveShell.init_completer(shell)
    completer: Any = shell.Completer
    code, cursor = _place(content)
    with provisionalcompleter():
        found = list(rectify_completions(code, completer.completions(code, cursor)))[:MAX_MATCHES]
    described = [
        {"start": one.start, "end": one.end, "text": one.text, "type": one.type, "signature": one.signature}
        for one in found
    ]
    return {
        "status": "ok",
        "matches": [one.text for one in found],
        "cursor_start": found[0].start if found else cursor,
        "cursor_end": found[0].end if found else cursor,
        # Front ends show these types beside the matches.
        "metadata": {"_jupyter_types_experimental": described},
    }


def inspect(shell, content):
    """Returns the content of an `inspect_reply`."""
    code, cursor = _place(content)
    name = token_at_cursor(code, cursor)
    try:
        forms = shell.object_inspect_mime(name, detail_level=1 if content.get("detail_level") == 1 else 0)
    except KeyError:
        return {"status": "ok", "found": False, "data": {}, "metadata": {}}
    return {"status": "ok", "found": True, "data": {"text/plain": forms["text/plain"]}, "metadata": {}}


def is_complete(shell, content):
    """Returns the content of an `is_complete_reply`."""
    code, _ = _place(content)
    status, spaces = shell.input_transformer_manager.check_complete(code)
    return {"status": status} | ({"indent": " " * spaces} if status == "incomplete" and spaces else {})


def _place(content):
    """Returns the code, and the position of the cursor in it. Both come from a client."""
    code, cursor = content.get("code"), content.get("cursor_pos")
    if not isinstance(code, str):
        raise ValueError("content.code must be a string")
    if not isinstance(cursor, int):
        cursor = len(code)
    return code, max(0, min(cursor, len(code)))
