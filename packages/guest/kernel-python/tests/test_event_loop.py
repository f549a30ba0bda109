# SPDX-License-Identifier: Apache-2.0
"""Tests of the event loop of cells."""

import asyncio
import os
import unittest
from typing import Any

from cloche_kernel.event_loop import CellLoop


async def loop_id():
    """Returns an identifier of the running event loop."""
    return id(asyncio.get_running_loop())


class Loops(unittest.TestCase):
    """Event loops that `CellLoop` runs coroutines on."""

    def setUp(self):
        self.cells = CellLoop()
        self.addCleanup(lambda: self.cells._loop and self.cells._loop.close())

    def test_stay_the_same_for_all_cells(self):
        self.assertEqual(self.cells.run(loop_id()), self.cells.run(loop_id()))

    def test_are_replaced_when_a_cell_has_closed_them(self):
        self.cells.run(loop_id())
        closed = self.cells._loop
        assert closed is not None
        closed.close()
        self.cells.run(loop_id())
        self.assertIsNot(self.cells._loop, closed)

    def test_are_replaced_when_a_cell_has_closed_their_descriptors(self):
        self.cells.run(loop_id())
        broken: Any = self.cells._loop
        os.close(broken._selector.fileno())
        self.cells.run(loop_id())
        self.assertIsNot(self.cells._loop, broken)

    def test_cancel_the_task_of_a_cell_that_is_interrupted(self):
        cancelled = []

        async def interrupted():
            asyncio.get_running_loop().call_soon(self.interrupt)
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                cancelled.append(True)
                raise

        self.assertRaises(KeyboardInterrupt, self.cells.run, interrupted())
        self.assertEqual(cancelled, [True])

    def interrupt(self):
        """Stands in for the handler of SIGINT."""
        raise KeyboardInterrupt
