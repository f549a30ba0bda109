"""Uses E2B's clients for Python, sync and async. `e2b-python.test.ts` runs it and sets their variables."""

import asyncio
import time
import unittest
from collections.abc import Callable

import httpcore
from e2b import AsyncSandbox as AsyncPlainSandbox
from e2b import CommandExitException, NotFoundException, PtySize, TimeoutException
from e2b_code_interpreter import AsyncSandbox, Sandbox


def eventually(condition: Callable[[], bool], within: float = 30) -> None:
    """Waits until `condition` holds."""
    end = time.monotonic() + within
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError("the condition does not hold")
        time.sleep(0.05)


class SyncClient(unittest.TestCase):
    """The sync client, all of whose tests share a sandbox."""

    box: Sandbox

    @classmethod
    def setUpClass(cls) -> None:
        cls.box = Sandbox.create(timeout=120, metadata={"a b": "c/d"}, envs={"COLOR": "teal"})

    @classmethod
    def tearDownClass(cls) -> None:
        cls.box.kill()

    def test_finds_lists_and_extends_the_sandbox(self) -> None:
        info = self.box.get_info()
        self.assertEqual((info.sandbox_id, info.metadata), (self.box.sandbox_id, {"a b": "c/d"}))
        self.assertIn(self.box.sandbox_id, [each.sandbox_id for each in Sandbox.list().next_items()])
        self.box.set_timeout(300)
        self.assertGreater(self.box.get_info().end_at, info.end_at)
        self.assertTrue(Sandbox.connect(self.box.sandbox_id).is_running())

    def test_runs_commands(self) -> None:
        seen: list[str] = []
        result = self.box.commands.run("echo $COLOR; pwd", on_stdout=seen.append)
        self.assertEqual((result.stdout, "".join(seen)), ("teal\n/home/user\n", "teal\n/home/user\n"))
        with self.assertRaises(CommandExitException) as raised:
            self.box.commands.run("echo bad >&2; exit 3")
        self.assertEqual((raised.exception.exit_code, raised.exception.stderr), (3, "bad\n"))
        # The older client limits each read by the same time, which may be up before the answer of the service arrives.
        with self.assertRaises((TimeoutException, httpcore.ReadTimeout)):
            self.box.commands.run("sleep 60", timeout=0.5)

    def test_runs_a_command_in_the_background(self) -> None:
        command = self.box.commands.run("cat; sleep 600", background=True, stdin=True)
        self.box.commands.send_stdin(command.pid, "typed\n")
        self.assertEqual(next(iter(command)), ("typed\n", None, None))
        self.assertIn(command.pid, [each.pid for each in self.box.commands.list()])
        self.assertTrue(command.kill())
        self.assertFalse(self.box.commands.kill(command.pid))

    def test_says_that_the_sandbox_was_killed_during_a_command(self) -> None:
        box = Sandbox.create(timeout=120)
        command = box.commands.run("echo begun; sleep 600", background=True)
        self.assertEqual(next(iter(command)), ("begun\n", None, None))
        box.kill()
        # The older client does not translate the exception of its HTTP library.
        with self.assertRaises((TimeoutException, httpcore.ReadError)) as raised:
            command.wait()
        if isinstance(raised.exception, TimeoutException):
            self.assertRegex(str(raised.exception), "sandbox was killed or reached its (end of life|timeout)")

    def test_opens_a_terminal(self) -> None:
        terminal = self.box.pty.create(PtySize(rows=31, cols=101), envs={"SHAPE": "round"}, cwd="/tmp")
        self.box.pty.resize(terminal.pid, PtySize(rows=22, cols=77))
        self.box.pty.send_stdin(terminal.pid, b'stty size; echo "$COLOR-$SHAPE-$PWD"; exit 4\n')
        screen: list[bytes] = []
        with self.assertRaises(CommandExitException) as raised:
            terminal.wait(on_pty=screen.append)
        self.assertEqual(raised.exception.exit_code, 4)
        self.assertRegex(b"".join(screen), rb"22 77\r\nteal-round-/tmp\r\n")
        other = self.box.pty.create(PtySize(rows=24, cols=80))
        self.assertEqual(self.box.pty.connect(other.pid).pid, other.pid)
        self.assertTrue(self.box.pty.kill(other.pid))
        self.assertFalse(self.box.pty.kill(other.pid))

    def test_uses_files(self) -> None:
        files = self.box.files
        self.assertEqual(files.write("notes/one.txt", "first").path, "/home/user/notes/one.txt")
        files.write_files([{"path": "notes/two.bin", "data": b"\x00\xff"}, {"path": "/tmp/three", "data": "x"}])
        self.assertEqual(files.read("notes/one.txt"), "first")
        self.assertEqual(files.read("notes/two.bin", format="bytes"), b"\x00\xff")
        self.assertEqual(sorted(each.name for each in files.list("notes")), ["one.txt", "two.bin"])
        self.assertEqual(files.get_info("notes/one.txt").permissions, "-rw-r--r--")
        files.rename("notes/one.txt", "notes/moved.txt")
        self.assertEqual((files.exists("notes/one.txt"), files.exists("notes/moved.txt")), (False, True))
        self.assertEqual((files.make_dir("deep/er"), files.make_dir("deep/er")), (True, False))
        files.remove("notes")
        with self.assertRaises(NotFoundException):
            files.read("notes/moved.txt")

    def test_watches_a_directory(self) -> None:
        self.box.files.make_dir("watched")
        watch = self.box.files.watch_dir("watched")
        self.box.files.write("watched/new", "x")
        seen: list[str] = []

        def has_seen() -> bool:
            seen.extend(each.name for each in watch.get_new_events())
            return "new" in seen

        eventually(has_seen)
        watch.stop()

    def test_runs_code(self) -> None:
        self.box.files.write("data.csv", "1,2")
        lines: list[str] = []
        run = self.box.run_code(
            "print('hi'); open('data.csv').read()", on_stdout=lambda message: lines.append(message.line)
        )
        self.assertEqual((run.text, "".join(lines)), ("1,2", "hi\n"))
        failed = self.box.run_code("1 / 0").error
        self.assertIsNotNone(failed)
        self.assertEqual(failed and failed.name, "ZeroDivisionError")
        plot = self.box.run_code("import matplotlib.pyplot as plt; plt.plot([1, 2]); plt.show()")
        self.assertIn("png", [form for result in plot.results for form in result.formats()])

    def test_has_contexts(self) -> None:
        context = self.box.create_code_context(cwd="/tmp")
        self.assertEqual(self.box.run_code("y = 1; import os; os.getcwd()", context=context).text, "/tmp")
        failed = self.box.run_code("y").error
        self.assertEqual(failed and failed.name, "NameError")
        self.box.restart_code_context(context)
        failed = self.box.run_code("y", context=context).error
        self.assertEqual(failed and failed.name, "NameError")
        self.box.remove_code_context(context)

    def test_measures_the_sandbox(self) -> None:
        self.assertGreater(self.box.get_metrics()[-1].mem_total, 0)


class AsyncClient(unittest.IsolatedAsyncioTestCase):
    """The async client."""

    async def test_runs_code_commands_and_files_at_once(self) -> None:
        box = await AsyncSandbox.create(timeout=120)
        try:
            run, command, written = await asyncio.gather(
                box.run_code("6 * 7"), box.commands.run("echo async"), box.files.write("a.txt", "a")
            )
            self.assertEqual((run.text, command.stdout, written.name), ("42", "async\n", "a.txt"))
        finally:
            await box.kill()
        self.assertFalse(await box.is_running())

    async def test_finds_a_sandbox_no_more_that_has_ended(self) -> None:
        box = await AsyncPlainSandbox.create(timeout=120)
        self.assertTrue(await box.kill())
        self.assertFalse(await box.kill())
        with self.assertRaises(Exception) as raised:
            await AsyncPlainSandbox.connect(box.sandbox_id)
        self.assertIn("not found", str(raised.exception))


if __name__ == "__main__":
    unittest.main(verbosity=2)
