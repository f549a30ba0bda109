"""What the tests share: a client of the service of the test run, and one sandbox."""

import atexit
import time
from collections.abc import Callable
from functools import cache
from typing import Any

from cloche import Cloche, Sandbox

_WITHIN_S = 60.0


@cache
def client() -> Cloche:
    """Returns the client."""
    made = Cloche()
    atexit.register(made.close)
    return made


@cache
def shared_sandbox() -> Sandbox:
    """Returns a sandbox that tests share; the test run destroys it."""
    return client().sandboxes.create(metadata={"of": "python"})


def eventually(condition: Callable[[], Any]) -> Any:
    """Waits until the condition holds, and returns its value."""
    ends_at = time.monotonic() + _WITHIN_S
    while not (value := condition()):
        if time.monotonic() > ends_at:
            raise AssertionError("the condition did not come to hold in time")
        time.sleep(0.05)
    return value
