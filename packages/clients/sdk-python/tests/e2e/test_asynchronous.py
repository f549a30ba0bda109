"""The asynchronous client. The synchronous one is generated from it, so this tests what differs."""

import asyncio
import unittest
from collections.abc import AsyncIterator

import cloche
from cloche import AsyncCloche, AsyncSandbox


class Asynchronous(unittest.IsolatedAsyncioTestCase):
    async def test_sandboxes_are_awaited_or_used_in_a_block(self):
        async with AsyncCloche() as client:
            sandbox = await client.sandboxes.create()
            runs = await asyncio.gather(*(sandbox.run(f"{n} + 1", context=None) for n in range(3)))
            self.assertEqual([run.text for run in runs], ["1", "2", "3"])
            await sandbox.kill()
        async with AsyncSandbox.create() as own:
            self.assertEqual((await own.run("6 * 7")).text, "42")
        self.assertEqual(own.info.status, "destroyed")

    async def test_sandboxes_are_paused_and_resumed_with_what_runs_in_them(self):
        async with AsyncSandbox.create() as sandbox:
            await sandbox.run("kept = 41")
            command = await sandbox.commands.start("sleep 600")
            paused = (await sandbox.pause()).info.paused
            assert paused is not None
            self.assertEqual((paused.by, paused.memory), ("request", "kept"))
            with self.assertRaises(cloche.SandboxPausedError):
                await sandbox.set_ttl(7_200_000)
            resumed = (await sandbox.resume(ttl_ms=1_800_000)).info.resumed
            assert resumed is not None
            self.assertEqual((resumed.by, sandbox.info.paused), ("request", None))
            self.assertEqual((await sandbox.run("kept + 1")).text, "42")
            self.assertEqual((await command.refresh()).info.status, "running")

    async def test_runs_stream_to_coroutines_and_are_canceled_with_their_task(self):
        async with AsyncSandbox.create() as sandbox, sandbox.contexts.create() as context:
            pieces: list[str] = []

            async def keep(text: str) -> None:
                await asyncio.sleep(0)
                pieces.append(text)

            await context.run("print('a', flush=True)", on_stdout=keep)
            self.assertEqual("".join(pieces), "a\n")
            started = asyncio.Event()
            code = "x = 1\nprint('started', flush=True)\nwhile True: pass"
            task = asyncio.create_task(context.run(code, on_stdout=lambda text: started.set()))
            await started.wait()
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
            self.assertEqual((await context.run("x")).text, "1")

    async def test_commands_end_with_their_task_and_files_come_from_coroutines(self):
        async def pieces() -> AsyncIterator[bytes]:
            yield b"a"
            yield b"b"

        async with AsyncSandbox.create() as sandbox:
            await sandbox.files.write("ab", pieces())
            async with sandbox.files.stream("ab") as file:
                self.assertEqual(b"".join([chunk async for chunk in file]), b"ab")
            started = asyncio.Event()
            line = "echo started; exec sleep 600"
            task = asyncio.create_task(sandbox.commands.run(line, on_stdout=lambda text: started.set()))
            await started.wait()
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
            command = (await sandbox.commands.list())[-1]
            self.assertEqual((await command.wait(timeout_ms=60_000)).status, "killed")
            async with sandbox.pty.open() as pty:
                await pty.write("echo $((40 + 2)); exit 3\n")
                self.assertIn(b"42", b"".join([data async for data in pty]))
            self.assertEqual(pty.exit_code, 3)
            with self.assertRaises(cloche.NotFoundError):
                await sandbox.files.read("none")

    async def test_lists_are_walked_in_pages_and_filtered_by_time(self):
        async with AsyncCloche() as client:
            runs = [await client.workspace_runs.create(command="true", metadata={"of": "pages"}) for _ in range(4)]
            page = await client.workspace_runs.list(
                metadata={"of": "pages"}, created_after=runs[0].info.created_at, limit=1
            )
            found = [run.id async for run in page.auto_paging_iter()]
            self.assertEqual(found, [run.id for run in reversed(runs[1:])])
            prefixed = await client.workspace_runs.list(id_prefix=runs[0].id[:-4])
            self.assertEqual([run.id for run in prefixed], [runs[0].id])
