# SPDX-License-Identifier: Apache-2.0
"""Tests of the answers to messages of Jupyter's protocol."""

import base64
import json
import sys
import types
import unittest
from typing import Any
from unittest import mock

from one_kernel import kernel  # pyright: ignore[reportMissingImports]

from cloche_kernel.jupyter import history
from cloche_kernel.jupyter.history import CellHistory
from cloche_kernel.jupyter.session import MAX_MESSAGE_CHARACTERS, Session

shell = kernel._shell


class Clients:
    """Stands for the clients of a context: sends requests and keeps the answers."""

    def __init__(self):
        self.sent = []
        self.lines = []
        self.error: Any = None
        self.session = Session(shell, self._take)

    def _take(self, text, is_last):
        message = json.loads(text)
        self.sent.append(message)
        if message["type"] == "input_request":
            reply = {"content": {"value": self.lines.pop(0)}}
            self.session.take_reply(json.dumps(reply))
            # No request waits for this reply.
            self.session.take_reply(json.dumps({"content": {"value": "late"}}))

    def ask(self, kind, content, buffers=()) -> Any:
        """Returns the content of the reply, or None without one. `sent` has all messages."""
        self.sent.clear()
        request = {"header": {"msg_id": "m1", "msg_type": kind}, "content": content, "metadata": {}}
        request["buffers"] = [base64.b64encode(buffer).decode() for buffer in buffers]
        self.error = kernel._run_cell(json.dumps(request), self.session.answer)
        return next((message["content"] for message in self.sent if message["channel"] == "shell"), None)

    def execute(self, code, **options) -> Any:
        """Returns the reply to a cell."""
        return self.ask("execute_request", {"code": code, "store_history": True, **options})

    def shown(self, kind):
        """Returns the contents of the messages of a type that the last request has made."""
        return [message["content"] for message in self.sent if message["type"] == kind]


clients = Clients()


class Executing(unittest.TestCase):
    """Cells that come as messages."""

    def test_counts_and_numbers_cells_unless_the_client_forbids_it(self):
        count = clients.execute("1")["execution_count"]
        self.assertEqual(clients.shown("execute_result")[0]["execution_count"], count)
        self.assertEqual(clients.execute("2", store_history=False)["execution_count"], count)
        self.assertEqual(clients.execute("3", silent=True)["execution_count"], count)
        self.assertEqual(clients.shown("execute_result"), [])
        self.assertEqual(clients.execute(" \n")["execution_count"], count)
        self.assertEqual(clients.execute("4")["execution_count"], count + 1)

    def test_evaluates_expressions_after_the_cell(self):
        values = clients.execute("x = 20", user_expressions={"good": "x + 1", "bad": "nothing"})["user_expressions"]
        self.assertEqual(values["good"]["data"], {"text/plain": "21"})
        self.assertEqual((values["bad"]["status"], values["bad"]["ename"]), ("error", "NameError"))

    def test_hides_the_value_of_a_cell_that_ends_with_a_semicolon(self):
        for code, shown in (("'a;b'", 1), ("5;", 0), ("5; # why", 0), ("5 # why;", 1)):
            clients.execute(code)
            self.assertEqual(len(clients.shown("execute_result")), shown, code)

    def test_tells_ids_and_updates_of_what_it_displays(self):
        clients.execute("from IPython.display import display, clear_output\nhandle = display(1, display_id='d')")
        self.assertEqual(clients.shown("display_data")[0]["transient"], {"display_id": "d"})
        clients.execute("handle.update(2)\nclear_output(wait=True)")
        update = clients.shown("update_display_data")[0]
        self.assertEqual((update["data"]["text/plain"], update["transient"]), ("2", {"display_id": "d"}))
        self.assertEqual(clients.shown("clear_output"), [{"wait": True}])

    def test_shows_help_as_a_page_of_the_reply(self):
        (page,) = clients.execute("zip?")["payload"]
        self.assertEqual(page["source"], "page")
        self.assertIn("zip", page["data"]["text/plain"])
        self.assertEqual(clients.execute("1")["payload"], [])

    def test_reports_an_error_as_every_other_cell_does(self):
        self.assertIsNone(clients.execute("1 / 0"))
        self.assertEqual(clients.error["name"], "ZeroDivisionError")

    def test_leaves_a_note_for_an_output_that_no_message_can_hold(self):
        clients.execute(f"display('x' * {MAX_MESSAGE_CHARACTERS}, raw=False)")
        note = clients.shown("display_data")[0]["data"]["text/plain"]
        self.assertRegex(note, f"left out, the kernel sends at most {MAX_MESSAGE_CHARACTERS} bytes")

    def test_asks_clients_to_exit_where_code_says_so(self):
        for code in ("exit", "quit", "exit()", "quit(3)"):
            reply = clients.execute(code)
            self.assertEqual(reply["payload"], [{"source": "ask_exit", "keepkernel": False}], code)

    def test_shows_an_exception_of_a_callback_without_ending_the_cell(self):
        reply = clients.execute("get_ipython().showtraceback((ValueError, ValueError('v'), None))\n7")
        self.assertEqual(reply["status"], "ok")
        self.assertEqual(clients.shown("error")[0]["ename"], "ValueError")


class Input(unittest.TestCase):
    """Lines that code reads from a client."""

    def test_is_asked_of_the_client_that_allows_it(self):
        clients.lines = ["Ada", "secret"]
        clients.execute("import getpass\nname, word = input('Name? '), getpass.getpass()", allow_stdin=True)
        asked = clients.shown("input_request")
        self.assertEqual(asked[0], {"prompt": "Name? ", "password": False})
        self.assertEqual(asked[1], {"prompt": "Password: ", "password": True})
        self.assertEqual((shell.user_ns["name"], shell.user_ns["word"]), ("Ada", "secret"))

    def test_is_refused_where_the_client_does_not_allow_it(self):
        clients.execute("input()", allow_stdin=False)
        self.assertEqual(clients.error["name"], "StdinNotImplementedError")

    def test_leaves_the_built_in_functions_to_runs_of_other_clients(self):
        clients.execute("own = input", allow_stdin=True)
        self.assertIsNot(shell.user_ns["own"], input)
        self.assertEqual(input.__module__, "builtins")


class Questions(unittest.TestCase):
    """Questions about code that is not executed."""

    def test_complete_names_attributes_and_keywords(self):
        clients.execute("class Box:\n    lid = 1\nbox_of_tests = Box()")
        for code, match in (("box_of_te", "box_of_tests"), ("box_of_tests.l", "lid"), ("impor", "import")):
            reply = clients.ask("complete_request", {"code": code, "cursor_pos": len(code)})
            completed = [code[: reply["cursor_start"]] + text for text in reply["matches"]]
            self.assertTrue(any(text.endswith(match) for text in completed), (code, reply["matches"][:5]))
            self.assertEqual(reply["cursor_end"], len(code))

    def test_inspect_an_object(self):
        reply = clients.ask("inspect_request", {"code": "zip", "cursor_pos": 2, "detail_level": 0})
        self.assertTrue(reply["found"])
        self.assertIn("Docstring", reply["data"]["text/plain"])
        self.assertNotIn("\x1b", reply["data"]["text/plain"])
        self.assertFalse(clients.ask("inspect_request", {"code": "nothing_here", "cursor_pos": 3})["found"])

    def test_tell_whether_code_is_complete(self):
        for code, status in (("1 + 1", "complete"), ("for n in x:", "incomplete"), ("1 +* 1", "invalid")):
            self.assertEqual(clients.ask("is_complete_request", {"code": code})["status"], status)
        self.assertEqual(clients.ask("is_complete_request", {"code": "if 1:"})["indent"], "    ")

    def test_answer_an_error_to_what_is_malformed(self):
        for kind in ("complete_request", "inspect_request", "is_complete_request"):
            reply = clients.ask(kind, {"code": 7})
            self.assertEqual((reply["status"], reply["ename"]), ("error", "ValueError"))
        self.assertIsNone(clients.ask("unknown_request", {}))


class History(unittest.TestCase):
    """The cells that clients ask for again."""

    def test_has_the_cells_that_were_stored(self):
        clients.execute("'first one'")
        clients.execute("'not stored'", store_history=False)
        count = clients.execute("'second one'")["execution_count"]
        entries = clients.ask("history_request", {"hist_access_type": "tail", "n": 2})["history"]
        self.assertEqual([entry[2] for entry in entries], ["'first one'", "'second one'"])
        ranged = {"hist_access_type": "range", "session": 0, "start": count, "stop": count + 1, "output": True}
        self.assertEqual(clients.ask("history_request", ranged)["history"], [[1, count, ["'second one'", None]]])
        search = {"hist_access_type": "search", "pattern": "*first*", "unique": True, "n": 5}
        self.assertEqual([entry[2] for entry in clients.ask("history_request", search)["history"]], ["'first one'"])

    def test_forgets_the_oldest_cells(self):
        with mock.patch.object(history, "MAX_CHARACTERS", 10):
            kept = CellHistory()
            for number in range(4):
                kept.add(number, "x" * 4)
        self.assertEqual([number for _, number, _ in kept.find({})], [2, 3])


def fake_package():
    """Returns a module with the parts of `comm` that this kernel uses."""
    comms, targets = {}, {}

    class BaseComm:
        publish_msg: Any
        handle: Any

        def __init__(self, target_name="", comm_id="c1", primary=True, **keys):
            self.target_name, self.comm_id = target_name, comm_id
            comms[comm_id] = self
            if primary:
                self.publish_msg("comm_open", data=keys.get("data"), target_name=target_name)

    def comm_open(stream, identity, message):
        content = message["content"]
        opened = package.create_comm(content["target_name"], content["comm_id"], primary=False)
        targets[content["target_name"]](opened, message)

    def comm_msg(stream, identity, message):
        comms[message["content"]["comm_id"]].handle(message)

    package: Any = types.ModuleType("comm")
    package.base_comm = types.SimpleNamespace(BaseComm=BaseComm)
    package.create_comm = lambda *arguments, **keys: None
    manager = types.SimpleNamespace(
        comms=comms, targets=targets, register_target=targets.__setitem__, comm_open=comm_open, comm_msg=comm_msg
    )
    package.get_comm_manager = lambda: manager
    return package


class CommMessages(unittest.TestCase):
    """Messages between widgets and their views."""

    def setUp(self):
        modules = mock.patch.dict(sys.modules, {"comm": fake_package()})
        modules.start()
        self.addCleanup(modules.stop)
        self.clients = Clients()

    def test_go_to_the_clients(self):
        self.clients.execute("import comm\nopened = comm.create_comm('t', 'c7', data={'nan': float('nan')})")
        (content,) = self.clients.shown("comm_open")
        self.assertEqual(content, {"data": {"nan": None}, "comm_id": "c7", "target_name": "t"})
        info = self.clients.ask("comm_info_request", {})
        self.assertEqual(info["comms"], {"c7": {"target_name": "t"}})
        self.assertEqual(self.clients.ask("comm_info_request", {"target_name": "other"})["comms"], {})
        self.clients.execute("opened.publish_msg('comm_msg', {'value': 1}, {'m': 1}, [b'bytes'])")
        (message,) = [message for message in self.clients.sent if message["type"] == "comm_msg"]
        self.assertEqual([base64.b64decode(buffer) for buffer in message["buffers"]], [b"bytes"])
        self.assertEqual(message["metadata"], {"m": 1})

    def test_come_from_the_clients_with_their_buffers(self):
        self.clients.execute("""
import comm
def opened(made, message):
    made.handle = lambda message: print(bytes(message["buffers"][0])) or received.append(message["content"]["data"])
received = []
comm.get_comm_manager().register_target("mine", opened)""")
        self.clients.ask("comm_open", {"comm_id": "c9", "target_name": "mine", "data": {}})
        self.clients.ask("comm_msg", {"comm_id": "c9", "data": {"value": 3}}, [b"raw"])
        self.assertEqual(shell.user_ns["received"], [{"value": 3}])
        self.assertIsNone(self.clients.error)

    def test_are_closed_where_the_package_is_missing(self):
        sys.modules["comm"] = None  # pyright: ignore[reportArgumentType]
        self.clients.ask("comm_open", {"comm_id": "c1", "target_name": "t", "data": {}})
        self.assertEqual(self.clients.shown("comm_close"), [{"comm_id": "c1", "data": {}}])
