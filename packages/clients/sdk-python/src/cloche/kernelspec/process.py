"""The process that Jupyter starts for a kernel."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

from cloche.kernelspec.bridge import Bridge, Ending
from cloche.kernelspec.front_end import FrontEnd
from cloche.kernelspec.gateway import Gateway, GatewayError
from cloche.kernelspec.settings import read_settings

_LOOK_SECONDS = 1


async def serve(connection_file: Path, kernel: str, patience: float) -> bool:
    """Serves a kernel until Jupyter shuts it down, and ends it with its sandbox.

    Returns whether Jupyter wanted the end. A restart leaves the kernel to the next process of the same connection file.
    """
    gateway = Gateway(read_settings())
    kept = Path(f"{connection_file}.cloche")
    with FrontEnd.of_file(connection_file) as front_end:
        beating = asyncio.create_task(front_end.echo_heartbeats())
        kernel_id = await _take_over(gateway, kept) or await gateway.start(kernel)
        kept.write_text(kernel_id)
        bridge = Bridge(front_end, gateway, kernel_id, patience)
        watching = _end_with_front_end(bridge)
        try:
            ending = await bridge.run()
        finally:
            watching.cancel()
            beating.cancel()
        if ending is Ending.SHUTDOWN:
            kept.unlink(missing_ok=True)
            with suppress(GatewayError):
                await gateway.shut_down(kernel_id)
    return ending is not Ending.LOST


async def _take_over(gateway: Gateway, kept: Path) -> str | None:
    """Restarts the kernel of the process before this one, so that the files of its sandbox stay."""
    try:
        kernel_id = kept.read_text()
        await gateway.restart(kernel_id)
    except (OSError, GatewayError):
        return None
    return kernel_id


def _end_with_front_end(bridge: Bridge) -> asyncio.Task[None]:
    """Ends the bridge at a signal, and when Jupyter has been killed. An interrupt comes as a message."""
    loop = asyncio.get_running_loop()
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def end(*_: object) -> None:
        loop.call_soon_threadsafe(bridge.end, Ending.SHUTDOWN)

    signal.signal(signal.SIGTERM, end)
    return asyncio.create_task(_watch_parent(bridge, os.getppid()))


async def _watch_parent(bridge: Bridge, parent: int) -> None:
    # Jupyter names itself here, unless the kernel is to outlive it. In Windows, the id of a parent never changes.
    if "JPY_PARENT_PID" not in os.environ or sys.platform == "win32":
        return
    while os.getppid() == parent:
        await asyncio.sleep(_LOOK_SECONDS)
    bridge.end(Ending.SHUTDOWN)
