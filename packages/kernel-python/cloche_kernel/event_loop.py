# SPDX-License-Identifier: Apache-2.0
"""Runs cells that use `await`, all on one event loop that lives as long as the context."""

import asyncio
import os


class CellLoop:
    """The event loop of a context. A closed or broken loop is replaced before the next cell."""

    def __init__(self):
        self._loop = None

    def run(self, coroutine):
        """Runs a coroutine to its end. An interrupt cancels its task first, then raises KeyboardInterrupt."""
        loop = self._usable_loop()
        task = loop.create_task(coroutine)
        try:
            return loop.run_until_complete(task)
        except KeyboardInterrupt:
            task.cancel()
            try:
                loop.run_until_complete(task)
            except asyncio.CancelledError:
                pass
            raise

    def _usable_loop(self):
        if self._loop is None or self._loop.is_closed() or not _is_open(self._loop):
            self._loop = asyncio.new_event_loop()
            asyncio.set_event_loop(self._loop)
        return self._loop


def _is_open(loop):
    """Tells whether the loop still has its descriptors, which a cell may have closed by number."""
    try:
        os.fstat(loop._selector.fileno())
        os.fstat(loop._ssock.fileno())
    except (AttributeError, OSError, ValueError):
        return False
    return True
