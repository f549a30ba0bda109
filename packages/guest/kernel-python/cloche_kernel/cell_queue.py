# SPDX-License-Identifier: Apache-2.0
"""The cells that wait for the main thread, which runs the event loop of the context meanwhile."""

from queue import SimpleQueue


class CellQueue:
    """A queue with one reader, the main thread."""

    def __init__(self, loop):
        self._loop = loop
        self._messages = SimpleQueue()

    def put(self, message):
        """Adds a message. Called by another thread."""
        self._messages.put(message)
        self._loop.wake()

    def get(self):
        """Waits for a message and returns it."""
        self._loop.run_until(lambda: not self._messages.empty())
        return self._messages.get()
