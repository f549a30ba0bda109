# SPDX-License-Identifier: Apache-2.0
"""Answers messages of Jupyter's protocol. Each one is a run; the service passes the messages on as text."""

import base64
import builtins
import getpass
import json
import platform
from contextlib import contextmanager
from queue import SimpleQueue

from IPython.core import payloadpage
from IPython.core.error import StdinNotImplementedError, TryNext

from cloche_kernel.errors import to_error
from cloche_kernel.forms import json_safe, left_out, to_forms
from cloche_kernel.jupyter import code_questions
from cloche_kernel.jupyter.comms import Comms
from cloche_kernel.jupyter.history import CellHistory

# A message is escaped once more in its frame, so this is far below the size of a frame.
MAX_MESSAGE_CHARACTERS = 8 * 1024 * 1024


class Session:
    """Serves Jupyter's clients of one context. Code knows it as `get_ipython().kernel`."""

    def __init__(self, shell, send_text):
        self.shell = shell
        self._send_text = send_text
        self._history = CellHistory()
        self._comms = Comms(self.send)
        self._replies = SimpleQueue()
        self._awaits_reply = False
        # The request that is being answered.
        self._request = {}
        shell.set_hook("show_in_pager", self._show_in_pager, 99)

    @property
    def comm_manager(self):
        """Where packages register the targets of comms."""
        return self._comms.registry

    def get_parent(self, channel=None):
        """Returns the request that is being answered: widgets that catch output name it to their views."""
        return self._request

    def answer(self, text):
        """Answers a message. Returns the exception of a cell, or None."""
        request = self._request = json.loads(text)
        request["buffers"] = [memoryview(base64.b64decode(buffer)) for buffer in request.get("buffers", ())]
        self.shell.session = self
        try:
            with self._standard_input():
                return self._answer(request["header"]["msg_type"], request)
        finally:
            self.shell.session = None

    def _answer(self, kind, request):
        content = request["content"]
        if kind == "execute_request":
            return self._execute(content)
        if kind in ("comm_open", "comm_msg", "comm_close"):
            return self._comms.take(request)
        question = _QUESTIONS.get(kind)
        if question is not None:
            try:
                self._reply(kind, question(self, content))
            except Exception as error:
                self._reply(kind, {"status": "error"} | _error_fields(error))
        return None

    def _execute(self, content):
        shell, code = self.shell, content["code"]
        silent = bool(content.get("silent"))
        is_empty = not code.strip()
        is_stored = not silent and not is_empty and content.get("store_history", True) is not False
        shell.payload_manager.clear_payload()
        if not is_empty:
            if is_stored:
                self._history.add(shell.execution_count + 1, code)
            exception = shell.run_counted(code, is_stored, silent)
            if exception is not None:
                return exception
        values = shell.user_expressions(content.get("user_expressions") or {})
        for value in values.values():
            if "data" in value:
                value["data"] = to_forms(value["data"])
        reply = {
            "status": "ok",
            "execution_count": shell.execution_count,
            "user_expressions": values,
            "payload": shell.payload_manager.read_payload(),
        }
        self._reply("execute_request", reply)
        return None

    # Output

    def send(self, channel, kind, content, metadata=None, buffers=None, is_last=False):
        """Sends a message to the clients. Without a request that is being answered it is dropped.

        Raises `ValueError` for one of more than `MAX_MESSAGE_CHARACTERS`.
        """
        if self.shell.session is None:
            return
        message = {"channel": channel, "type": kind, "content": json_safe(content)}
        if metadata:
            message["metadata"] = json_safe(metadata)
        if buffers:
            message["buffers"] = [base64.b64encode(buffer).decode("ascii") for buffer in buffers]
        text = json.dumps(message, ensure_ascii=False, separators=(",", ":"))
        if len(text) > MAX_MESSAGE_CHARACTERS:
            raise ValueError(f"a message of {len(text)} characters; at most {MAX_MESSAGE_CHARACTERS} can be sent")
        self._send_text(text, is_last)

    def show(self, kind, forms, metadata, is_last=False, **fields):
        """Sends an output. A note takes the place of one that is too large."""
        content = {"data": to_forms(forms), "metadata": metadata or {}, **fields}
        try:
            self.send("iopub", kind, content, is_last=is_last)
        except ValueError:
            size = sum(len(str(form)) for form in content["data"].values())
            note = {"text/plain": left_out(" and ".join(content["data"]), size, MAX_MESSAGE_CHARACTERS)}
            self.send("iopub", kind, {**content, "data": note, "metadata": {}}, is_last=is_last)

    def show_result(self, forms, metadata, is_last):
        """Sends the value of a cell."""
        self.show("execute_result", forms, metadata, is_last, execution_count=self.shell.execution_count)

    def display(self, forms, metadata, transient, update):
        """Sends what code displays, or an update of it."""
        kind = "update_display_data" if update else "display_data"
        self.show(kind, forms, metadata, transient=transient or {})

    def show_error(self, exception):
        """Sends an exception that does not end the cell."""
        self.send("iopub", "error", _error_fields(exception))

    def _reply(self, kind, content):
        reply = kind.replace("_request", "_reply")
        try:
            self.send("shell", reply, content, is_last=True)
        except ValueError as error:
            self.send("shell", reply, {"status": "error"} | _error_fields(error), is_last=True)

    def _show_in_pager(self, shell, data, start=0, screen_lines=0):
        """Puts text that a terminal would show in a pager into the reply."""
        if self.shell.session is None:
            raise TryNext
        payloadpage.page(data, start)

    # Standard input

    @contextmanager
    def _standard_input(self):
        """Lets code read lines from the client that sent the request, while it is answered."""
        before = builtins.input, getpass.getpass
        builtins.input, getpass.getpass = self._input, self._getpass
        try:
            yield
        finally:
            builtins.input, getpass.getpass = before

    def _input(self, prompt="", /):
        return self._ask(str(prompt), is_password=False)

    def _getpass(self, prompt="Password: ", stream=None, **options):
        return self._ask(str(prompt), is_password=True)

    def _ask(self, prompt, is_password):
        if self._request["content"].get("allow_stdin") is not True:
            name = "getpass" if is_password else "raw_input"
            raise StdinNotImplementedError(f"{name} was called, but this frontend does not support input requests.")
        self._awaits_reply = True
        try:
            self.send("stdin", "input_request", {"prompt": prompt, "password": is_password})
            return self._replies.get()
        finally:
            self._awaits_reply = False
            while not self._replies.empty():
                self._replies.get_nowait()

    def take_reply(self, text):
        """Takes an `input_reply`. Called by another thread; a reply that code does not wait for is dropped."""
        try:
            value = json.loads(text)["content"]["value"]
        except (ValueError, TypeError, KeyError, RecursionError):
            return
        if self._awaits_reply and isinstance(value, str):
            self._awaits_reply = False
            self._replies.put(value)


def _error_fields(exception):
    error = to_error(exception)
    return {"ename": error["name"], "evalue": error["message"], "traceback": error["traceback"]}


def _kernel_info(session, content):
    return {"status": "ok", "language_info": {"version": platform.python_version()}}


_QUESTIONS = {
    "complete_request": lambda session, content: code_questions.complete(session.shell, content),
    "inspect_request": lambda session, content: code_questions.inspect(session.shell, content),
    "is_complete_request": lambda session, content: code_questions.is_complete(session.shell, content),
    "history_request": lambda session, content: {"status": "ok", "history": session._history.find(content)},
    "comm_info_request": lambda session, content: {
        "status": "ok",
        "comms": session._comms.list(content.get("target_name")),
    },
    "kernel_info_request": _kernel_info,
}
