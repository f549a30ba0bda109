# SPDX-License-Identifier: Apache-2.0
"""Tests of cells: how they are compiled, and what becomes of their values and errors."""

import signal
import socket
import unittest
from unittest import mock

from IPython.core.formatters import DisplayFormatter
from one_kernel import kernel  # pyright: ignore[reportMissingImports]

from cloche_kernel import channel
from cloche_kernel.channel import Channel
from cloche_kernel.kernel import HELD_CHARACTERS

shell = kernel._shell


class Cells(unittest.TestCase):
    """Results of cells."""

    def setUp(self):
        self.outputs = []
        publish = shell.publish
        shell.publish = lambda role, bundle, is_last=False: self.outputs.append((role, bundle, is_last))
        self.addCleanup(setattr, shell, "publish", publish)

    def values(self, code):
        """Returns the texts that a cell shows, which is not to fail."""
        self.outputs.clear()
        self.assertIsNone(kernel._run_cell(code))
        return [bundle["text/plain"] for _, bundle, _ in self.outputs]

    def test_show_the_value_of_the_last_expression_only(self):
        self.assertEqual(self.values("1\n2\n3"), ["3"])
        self.assertEqual(self.values("x = 1"), [])
        self.assertEqual(self.values("for n in range(3): n"), [])
        self.assertEqual(self.values("None"), [])

    def test_mark_the_value_that_ends_them(self):
        kernel._run_cell("import sys\nsys.displayhook(1)\n2")
        self.assertEqual([is_last for _, _, is_last in self.outputs], [False, True])

    def test_can_await_on_one_event_loop(self):
        loop = "import asyncio\nid(asyncio.get_running_loop()) if await asyncio.sleep(0) is None else 0"
        self.assertEqual(self.values(loop), self.values(loop))

    def test_can_have_magics(self):
        self.assertEqual(self.values("value = !echo text\nvalue[0]"), ["'text'"])

    def test_are_named_by_their_number_in_tracebacks(self):
        error = kernel._run_cell("1 / 0")
        assert error is not None
        self.assertIn(f'File "<cell {shell.execution_count}>", line 1, in <module>', "\n".join(error["traceback"]))

    def test_keep_what_ran_before_an_error(self):
        error = kernel._run_cell("before = 7\nnothing\nafter = 8")
        assert error is not None
        self.assertEqual(error["name"], "NameError")
        self.assertEqual(self.values("before, 'after' in globals()"), ["(7, False)"])

    def test_fail_as_a_whole_with_a_syntax_error(self):
        error = kernel._run_cell("early = 1\nx = = 2")
        assert error is not None
        self.assertEqual((error["name"], error["message"]), ("SyntaxError", "invalid syntax (line 2)"))
        self.assertEqual(self.values("'early' in globals()"), ["False"])

    def test_leave_no_trace_of_a_warm_up(self):
        count = shell.execution_count
        kernel.warm_up("warmed = 1\n1 / 0")
        self.assertEqual(shell.execution_count, 0)
        shell.execution_count = count
        self.assertEqual(self.values("'warmed' in globals()"), ["False"])


class PlainCells(unittest.TestCase):
    """Which cells are run without IPython's transformations."""

    def test_are_those_without_syntax_of_ipython(self):
        for cell in ("1 + 1", "x = 1\ny = 2", "def f():\n    return 1", "print('a')", "lambda: 0", "# note", "a_name"):
            with self.subTest(cell):
                self.assertTrue(shell.plain_cells.takes(cell))

    def test_are_none_that_ipython_changes(self):
        cells = [
            "%pwd",
            "!ls",
            "x?",
            ">>> 1",
            "In [1]: 1",
            " 1",
            ",f a",
            ";f a",
            "/f a",
            "pwd",
            "a\r\nb",
            "",
            "a\u2028b",
        ]
        for cell in [*cells, "await x", "async def f(): pass", "from __future__ import annotations"]:
            with self.subTest(cell):
                self.assertFalse(shell.plain_cells.takes(cell))

    def test_are_none_while_user_code_transforms_cells(self):
        transforms = shell.input_transformer_manager.line_transforms
        transforms.append(lambda lines: lines)
        self.addCleanup(transforms.pop)
        self.assertFalse(shell.plain_cells.takes("1 + 1"))


class PlainValues(unittest.TestCase):
    """Numbers, texts and plain collections."""

    def test_have_the_forms_that_ipython_gives_them(self):
        formatter = shell.display_formatter
        values = [1, -(2**70), 10**5000, True, 0.1, 1j, "a\nb'", b"\0", [1, [2]], (1,), {}, {"a": 1}, {1}, frozenset()]
        for value in [*values, list(range(500)), "x" * 5000, ["y" * 60] * 3]:
            with self.subTest(type(value)):
                outcomes = []
                for format_value in (formatter.format, lambda value: DisplayFormatter.format(formatter, value)):
                    try:
                        outcomes.append(format_value(value))
                    except ValueError as error:
                        outcomes.append(str(error))
                self.assertEqual(outcomes[0], outcomes[1])

    def test_have_the_forms_of_formatters_that_user_code_registers(self):
        html = shell.display_formatter.formatters["text/html"]
        self.assertEqual(list(shell.display_formatter.format(3)[0]), ["text/plain"])
        html.for_type(int, lambda value: f"<b>{value}</b>")
        self.addCleanup(html.pop, int)
        self.assertEqual(shell.display_formatter.format(3)[0], {"text/plain": "3", "text/html": "<b>3</b>"})
        self.assertEqual(shell.display_formatter.format(True)[0]["text/html"], "<b>True</b>")


class Messages(unittest.TestCase):
    """Messages of a run."""

    def setUp(self):
        self.agent, ours = socket.socketpair()
        self.addCleanup(self.agent.close)
        kernel._channel = Channel(ours)
        self.addCleanup(kernel._channel.forget)
        kernel._streams = mock.Mock(**{"are_empty.return_value": True})
        kernel._run_id = "run_1"
        self.addCleanup(setattr, kernel, "_run_id", None)

    def received(self):
        """Returns the next message that the agent gets."""
        return Channel(self.agent.dup()).receive(timeout_ms=1000)

    def test_keep_a_short_result_for_the_end_of_the_cell(self):
        kernel._publish("result", {"text/plain": "x" * HELD_CHARACTERS}, is_last=True)
        self.assertEqual(len(kernel._held), 1)
        done = {"type": "done"}
        self.assertNotEqual(kernel._take_held(done), b"")
        self.assertEqual((done, kernel._held), ({"type": "done", "drained": True}, []))

    def test_hold_a_long_result_at_once(self):
        kernel._publish("result", {"text/plain": "x" * (HELD_CHARACTERS + 1)}, is_last=True)
        self.assertEqual(kernel._held, [])
        self.assertEqual(self.agent.recv(4)[:2], b"\0\0")

    def test_are_sent_whole_before_an_interrupt_ends_the_cell(self):
        self.addCleanup(signal.signal, signal.SIGINT, signal.signal(signal.SIGINT, kernel._on_sigint))
        send = kernel._channel.send

        def interrupted_send(message, after=b""):
            signal.raise_signal(signal.SIGINT)
            send(message, after)

        with mock.patch.object(kernel._channel, "send", interrupted_send):
            error = kernel._run_cell("import sys\nfor n in range(3): sys.displayhook(n)")
        assert error is not None
        self.assertEqual(error["name"], "KeyboardInterrupt")
        agent = Channel(self.agent.dup())
        first = agent.receive(timeout_ms=1000)
        assert first is not None
        self.assertEqual(first["forms"], {"text/plain": "0"})
        self.assertIsNone(agent.receive(timeout_ms=0))
        self.assertIsNone(kernel._run_cell("1"))

    def test_hold_a_note_in_place_of_a_frame_that_is_too_large(self):
        with mock.patch.object(channel, "MAX_FRAME_BYTES", 400):
            kernel._publish("result", {"text/plain": "x" * 500})
        message = self.received()
        assert message is not None
        self.assertRegex(message["forms"]["text/plain"], r"^\[cloche: text/plain output of \d+ bytes left out")

    def test_are_none_without_a_run(self):
        kernel._run_id = None
        kernel._publish("display", {"text/plain": "x"})
        self.agent.setblocking(False)
        self.assertRaises(BlockingIOError, self.agent.recv, 1)
