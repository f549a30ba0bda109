"""Waits until a paused sandbox is resumed, without waking it."""

from __future__ import annotations

import time

from cloche._core.errors import ClocheError
from cloche._generated.models import Sandbox as SandboxInfo
from cloche._sync.client import ApiClient
from cloche._sync.runtime import pause

# Longest time from the end of a stream until its sandbox is paused. The pause may be given up meanwhile.
_PAUSING_S = 15.0
_FIRST_LOOK_S = 0.1
_LONGEST_LOOK_S = 2.0


def until_resumed(client: ApiClient, sandbox_id: str, max_retries: int | None = None) -> None:
    """
    Returns when a sandbox whose pause has ended a stream is resumed, or has ended. Waits up to 30 seconds for an
    unreachable service.
    """
    outage = client.outage(max_retries)
    outage.note_response()
    started_at = time.monotonic()
    was_paused = False
    look_s = _FIRST_LOOK_S
    while True:
        try:
            params = {"sandboxId": sandbox_id}
            sandbox = client.one(SandboxInfo, "sandbox", "getSandbox", params=params, max_retries=max_retries)
            outage.note_response()
            was_paused = was_paused or sandbox.paused is not None
            # On its way into a pause, it is idle and not paused yet.
            is_early = time.monotonic() - started_at < _PAUSING_S
            is_pausing = not was_paused and sandbox.status == "idle" and is_early
            if sandbox.paused is None and not is_pausing:
                return
        except ClocheError as error:
            if not outage.may_return(error):
                raise
        pause(look_s)
        look_s = min(look_s * 2, _LONGEST_LOOK_S)
