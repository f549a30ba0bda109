# SPDX-License-Identifier: Apache-2.0
"""The event loop of a context, on which cells run what they await, and which goes on between cells.

Code that does not await finds it as the running loop, as in Jupyter: `asyncio.create_task` works at the top of a cell.
Other than there, such code may also run a loop itself, as `asyncio.run` does.
"""

import _thread
import asyncio
import os
from typing import Any

_get_running_loop = asyncio.events._get_running_loop
_set_running_loop = asyncio.events._set_running_loop


class CellLoop:
    """The event loop of a context. A closed or broken loop is replaced before the next cell."""

    def __init__(self):
        # An event loop with the parts that Python's own have, or None.
        self._loop: Any = None
        # Whether the loop is the running one for code that does not await.
        self._is_held = False
        # Whether the loop runs between two cells.
        self.is_idle = False
        self._thread = _thread.get_ident()
        asyncio.events._get_running_loop = _get_turning_loop
        asyncio.events._set_running_loop = self._set_running_loop

    def prepare(self):
        """Makes the loop before the first cell. Without it code that does not await has no loop."""
        self._loop = self._usable_loop()

    def hold(self):
        """Makes the loop the running one, until `release`."""
        if self._loop is not None:
            self._is_held = True
            _set_running_loop(self._usable_loop())

    def release(self):
        """Ends what `hold` has begun."""
        self._is_held = False
        _set_running_loop(None)

    def run(self, coroutine):
        """Runs a coroutine to its end. An interrupt cancels its task first, then raises KeyboardInterrupt."""
        was_held = self._is_held
        self.release()
        try:
            return self._run(coroutine)
        finally:
            if was_held:
                self.hold()

    def _run(self, coroutine):
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

    def run_until(self, is_over):
        """Runs what cells have left on the loop, until `is_over()` after a `wake`. Returns if nothing is left."""
        self.is_idle = True
        try:
            while not is_over() and self._has_work():
                try:
                    self._loop.run_forever()
                except Exception:
                    # The loop is broken. The next cell gets another one.
                    return
                except BaseException:
                    # A task has raised SystemExit, or was interrupted for the next cell.
                    pass
        finally:
            self.is_idle = False

    def wake(self):
        """Makes `run_until` look again. Called by another thread."""
        if self.is_idle:
            try:
                self._loop.call_soon_threadsafe(self._stop_if_idle)
            except RuntimeError:
                # The loop is closed, so nothing waits.
                pass

    def _stop_if_idle(self):
        if self.is_idle:
            self._loop.stop()

    def _has_work(self):
        loop = self._loop
        if loop is None or loop.is_closed() or not _is_open(loop):
            return False
        return bool(loop._ready or loop._scheduled or len(loop._selector.get_map()) > 1 or asyncio.all_tasks(loop))

    def _usable_loop(self):
        if self._loop is None or self._loop.is_closed() or not _is_open(self._loop):
            self._loop = asyncio.new_event_loop()
            asyncio.set_event_loop(self._loop)
        return self._loop

    def _set_running_loop(self, loop):
        """Sets the running loop. The end of a loop that a cell has run itself gives the held one back."""
        if loop is None and self._is_held and _thread.get_ident() == self._thread:
            loop = self._loop
        _set_running_loop(loop)


def _get_turning_loop():
    """Returns the running loop to what may not run another one beside it: the held one does not turn."""
    loop = _get_running_loop()
    return loop if loop is not None and loop.is_running() else None


def _is_open(loop):
    """Tells whether the loop still has its descriptors, which a cell may have closed by number."""
    try:
        os.fstat(loop._selector.fileno())
        os.fstat(loop._ssock.fileno())
    except (AttributeError, OSError, ValueError):
        return False
    return True
