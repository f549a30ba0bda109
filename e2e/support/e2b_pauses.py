"""Pauses sandboxes with E2B's clients for Python. `e2b-pauses.test.ts` runs it and sets their variables."""

import asyncio
import time
import unittest

from e2b import SandboxQuery, SandboxState
from e2b_code_interpreter import AsyncSandbox, Sandbox


class Pauses(unittest.TestCase):
    """The sync client."""

    def test_a_pause_keeps_variables_and_processes(self) -> None:
        box = Sandbox.create(timeout=300)
        try:
            box.run_code("x = 41")
            command = box.commands.run("sleep 600", background=True)
            box.pause()
            self.assertFalse(box.is_running())
            paused = Sandbox.list(query=SandboxQuery(state=[SandboxState.PAUSED])).next_items()
            self.assertIn(box.sandbox_id, [each.sandbox_id for each in paused])
            with self.assertRaisesRegex(Exception, "paused"):
                box.run_code("x")
            box.connect()
            self.assertEqual(box.run_code("x + 1").text, "42")
            self.assertIn(command.pid, [each.pid for each in box.commands.list()])
        finally:
            box.kill()

    def test_a_timeout_pauses_and_a_command_wakes(self) -> None:
        box = Sandbox.create(timeout=60, lifecycle={"on_timeout": "pause", "auto_resume": True})
        try:
            box.set_timeout(1)
            end = time.monotonic() + 30
            while box.get_info().state != SandboxState.PAUSED:
                self.assertLess(time.monotonic(), end)
                time.sleep(0.05)
            self.assertEqual(box.commands.run("echo awake").stdout, "awake\n")
            self.assertTrue(box.is_running())
        finally:
            box.kill()


class AsyncPauses(unittest.IsolatedAsyncioTestCase):
    """The async client."""

    async def test_a_pause_keeps_files(self) -> None:
        box = await AsyncSandbox.create(timeout=300)
        try:
            await box.files.write("/tmp/kept", "kept")
            await box.pause()
            self.assertFalse(await box.is_running())
            again = await asyncio.gather(*(AsyncSandbox.connect(box.sandbox_id) for _ in range(5)))
            self.assertEqual({each.sandbox_id for each in again}, {box.sandbox_id})
            self.assertEqual(await box.files.read("/tmp/kept"), "kept")
        finally:
            await box.kill()


if __name__ == "__main__":
    unittest.main(verbosity=2)
