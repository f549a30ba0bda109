"""Uses a Python client of the service: E2B's own for `e2b`, the SDK for `sdk`.

Reads an act from each line of JSON, and prints how many milliseconds it took. The time is measured here, so that the
messages between the benchmark and this process do not count.
"""

import json
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

if sys.argv[1] == "e2b":
    from e2b_code_interpreter import Sandbox

    create: Callable[[], Any] = Sandbox.create
    run = Sandbox.run_code
    # The default may be shorter than the measurement.
    keep: Callable[[], Any] = partial(Sandbox.create, timeout=600)
else:
    from cloche import Cloche, Sandbox

    create = Cloche().sandboxes.create
    run = Sandbox.run
    keep = create


def timed(act: Callable[[], Any]) -> tuple[float, Any]:
    begin = time.perf_counter()
    result = act()
    return (time.perf_counter() - begin) * 1000, result


kept: Any = None
for line in sys.stdin:
    act = json.loads(line)["act"]
    if act == "create":
        ms, sandbox = timed(create)
        sandbox.kill()
    elif act == "run":
        kept = kept or keep()
        ms, _ = timed(partial(run, kept, "1+1"))
    else:
        ms, _ = timed(kept.kill)
    print(json.dumps({"ms": ms}), flush=True)
