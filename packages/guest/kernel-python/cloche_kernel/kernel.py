# SPDX-License-Identifier: Apache-2.0
"""The kernel's two threads: the main one runs cells, the other one reads messages of the agent."""

import _signal  # pyright: ignore[reportMissingImports]
import _thread
import itertools
import os
import signal
from typing import Any

from cloche_kernel import import_hook
from cloche_kernel.cell_queue import CellQueue
from cloche_kernel.channel import Channel, ChannelClosed, FrameTooLarge, frame
from cloche_kernel.errors import to_error
from cloche_kernel.event_loop import CellLoop
from cloche_kernel.forms import left_out, to_forms
from cloche_kernel.shell import Shell
from cloche_kernel.streams import StandardStreams
from cloche_kernel.user_site import look_again

PROTOCOL_VERSION = 1

# A signal is lost while a cell waits in C with SIGINT ignored (`os.system`), so it is repeated.
INTERRUPT_REPEAT_MS = 50

# A longer result is sent at once, so that it travels while the cell ends.
HELD_CHARACTERS = 16 * 1024

# After this wait for the agent the cell goes on, at the risk of outputs out of order.
SYNC_TIMEOUT_SECONDS = 5


class Kernel:
    """Runs the cells of one context. The constructor uses nothing of a sandbox, so a zygote calls it before a fork."""

    _channel: Channel
    _streams: StandardStreams

    def __init__(self):
        self._pid = os.getpid()
        self._loop = CellLoop()
        self._cells = CellQueue(self._loop)
        self._shell = Shell.create(self._publish, self._loop.run)
        self._shell.open_session = self._open_session
        # Made with the first message of Jupyter's protocol, or for code that looks at `get_ipython().kernel`.
        self._session: Any = None
        # The run that is executed, the one that is queued, and the one to interrupt. All change under the lock.
        self._lock = _thread.allocate_lock()
        self._run_id = None
        self._next_run_id = None
        self._interrupted = None
        self._in_cell = False
        # True while the main thread writes: an exception in the middle of a frame would break the protocol.
        self._sending = False
        # True if an interrupt arrived meanwhile: a cell that sends nearly all of the time must be ended, too.
        self._interrupt_is_kept = False
        # Results to send with the next message.
        self._held = []
        self._main_thread = _thread.get_ident()
        self._sync_numbers = itertools.count()
        self._syncs = {}
        import_hook.install()

    def warm_up(self, code):
        """Runs a cell so that later ones of its kind are quicker, and removes its traces."""
        with self._shell.warm_up():
            self._run_cell(code)

    def run(self, channel, assignment=None):
        """Serves the agent with the channel and descriptors 1 and 2. Never returns.

        Without an `assignment` the kernel is ready at once. With one, it is ready each time that it has taken the
        directory and environment of a context, and it checks before the first cell that they still hold.
        """
        self._channel = channel
        self._pid = os.getpid()
        self._streams = StandardStreams()
        os.register_at_fork(after_in_child=self._after_fork)
        signal.signal(signal.SIGINT, self._on_sigint)
        try:
            _thread.start_new_thread(self._listen, ())
        except RuntimeError:
            # The sandbox has reached its limit of processes, which the agent reports.
            os._exit(1)
        if assignment is None:
            self._send_ready()
            self._loop.prepare()
        try:
            while True:
                message = self._cells.get()
                if message["type"] == "assign":
                    self._assign(assignment, message)
                elif message.get("warmUp"):
                    with self._shell.warm_up():
                        self._execute(message["runId"], message["code"])
                else:
                    if assignment is not None:
                        self._exit_on(assignment.mismatch())
                    assignment = None
                    self._execute(message["runId"], message["code"], message.get("message"))
        except OSError:
            # The channel is broken, or user code has closed it.
            os._exit(1)

    def _send_ready(self):
        self._channel.send({"type": "ready", "protocolVersion": PROTOCOL_VERSION})

    def _assign(self, assignment, message):
        self._exit_on(assignment.apply(message["cwd"], message["env"]))
        self._shell.starting_dir = os.getcwd()
        self._shell.home_dir = os.path.expanduser("~")
        self._send_ready()
        self._loop.prepare()

    def _exit_on(self, mismatch):
        if mismatch is not None:
            self._channel.send({"type": "unfit", "reason": mismatch})
            os._exit(0)

    # The listening thread

    def _listen(self):
        try:
            while True:
                pending = self._interrupted is not None
                message = self._channel.receive(INTERRUPT_REPEAT_MS if pending else None)
                if message is None:
                    self._signal_again()
                elif message["type"] in ("execute", "assign"):
                    with self._lock:
                        self._next_run_id = message.get("runId")
                    self._cells.put(message)
                elif message["type"] == "interrupt":
                    self._interrupt(message["runId"])
                elif message["type"] == "message":
                    self._take_reply(message)
                elif message["type"] == "synced":
                    waiting = self._syncs.pop(message["sync"], None)
                    if waiting is not None:
                        waiting.release()
        except ChannelClosed:
            os._exit(0)
        except OSError:
            # The channel is broken, or user code has closed it.
            os._exit(1)

    def _interrupt(self, run_id):
        """Interrupts the cell and the processes that it has started, but for those that have left the process group."""
        with self._lock:
            if run_id not in (self._run_id, self._next_run_id):
                return
            self._interrupted = run_id
            if run_id == self._run_id:
                os.killpg(0, signal.SIGINT)
            elif self._loop.is_idle:
                # The run is queued and stops as soon as it begins. A task of an earlier cell may keep it from that.
                signal.pthread_kill(self._main_thread, signal.SIGINT)

    def _take_reply(self, message):
        session = self._session
        if session is not None and message["runId"] == self._run_id:
            session.take_reply(message["message"])

    def _signal_again(self):
        with self._lock:
            if self._interrupted is not None and self._interrupted == self._run_id:
                signal.pthread_kill(self._main_thread, signal.SIGINT)

    # The main thread

    def _on_sigint(self, number, frame):
        # Only a cell is stopped, whether the agent or user code has sent the signal. While a frame is being sent the
        # interrupt is kept until the end of the frame.
        if self._in_cell:
            if self._sending:
                self._interrupt_is_kept = True
            else:
                self._stop_cell()
        elif self._loop.is_idle and self._interrupted is not None:
            raise KeyboardInterrupt

    def _stop_cell(self):
        self._interrupt_is_kept = False
        self._interrupted = None
        raise KeyboardInterrupt

    def _execute(self, run_id, code, text=None):
        if self._shell.execution_count == 0:
            look_again()
        self._streams.repair()
        # Removes a handler of an earlier cell. `signal.signal` takes ten times as long, as it converts values to enums.
        _signal.signal(_signal.SIGINT, self._on_sigint)
        with self._lock:
            self._run_id = run_id
            self._next_run_id = None
        error = self._run_cell(code) if text is None else self._run_cell(text, self._answer)
        with self._lock:
            self._run_id = None
            self._interrupted = None
        if os.getpid() != self._pid:
            # A child that the cell has forked ends here: its parent reports the run.
            self._streams.flush()
            os._exit(0)
        self._streams.flush()
        done: dict[str, Any] = {"type": "done", "runId": run_id, "executionCount": self._shell.execution_count}
        if error is not None:
            done["error"] = error
        self._channel.send(done, after=self._take_held(done))

    def _run_cell(self, code, run=None):
        """Runs a cell, or `run` with its text. Returns its error or None. Catches everything that the cell raises."""
        exception = None
        self._interrupt_is_kept = False
        try:
            self._in_cell = True
            if self._interrupted is not None:
                signal.raise_signal(signal.SIGINT)
            self._loop.hold()
            exception = (run or self._shell.run_counted)(code)
        except BaseException as raised:
            exception = raised
        while self._in_cell:
            try:
                self._in_cell = False
            except KeyboardInterrupt as late:
                exception = late if exception is None else exception
        self._loop.release()
        return None if exception is None else to_error(exception)

    def _answer(self, text):
        return self._open_session().answer(text)

    def _open_session(self):
        if self._session is None:
            # Loaded late: most contexts have no client of Jupyter.
            from cloche_kernel.jupyter.session import Session

            self._session = Session(self._shell, self._send_text)
        return self._session

    def _publish(self, role, bundle, is_last=False):
        """Sends an output of the current run, in order with what the cell prints. Without a run it is dropped."""
        run_id = self._run_id
        if run_id is None or os.getpid() != self._pid:
            return
        message = {"type": "output", "runId": run_id, "role": role, "forms": to_forms(bundle)}
        if is_last and self._hold(message):
            return
        self._streams.flush()
        if role == "result":
            self._send(message)
            return
        self._send_and_wait(message)

    def _send_text(self, text, is_last):
        """Sends a message of Jupyter's protocol, in order with what the run prints."""
        run_id = self._run_id
        if run_id is None or os.getpid() != self._pid:
            return
        message = {"type": "message", "runId": run_id, "message": text}
        if is_last:
            self._held.append(message)
            return
        self._streams.flush()
        self._send_and_wait(message)

    def _send_and_wait(self, message):
        """Sends a message and waits for the agent, so that what the cell prints next does not overtake it."""
        number = next(self._sync_numbers)
        waiting = self._syncs[number] = _thread.allocate_lock()
        waiting.acquire()
        self._send(message | {"sync": number})
        waiting.acquire(timeout=SYNC_TIMEOUT_SECONDS)

    def _hold(self, message):
        """Keeps a small result for the message that ends the cell, so that the agent wakes up once and not twice."""
        if len(message["forms"].get("text/plain", "")) > HELD_CHARACTERS or len(message["forms"]) > 1:
            return False
        self._held.append(message)
        return True

    def _take_held(self, message):
        """Returns the frames to send before `message`. Marks all of them if the agent has read everything printed."""
        held, self._held = self._held, []
        drained = {"drained": True} if self._streams.are_empty() else {}
        message.update(drained)
        return b"".join(frame(result | drained) for result in held)

    def _send(self, message):
        on_main_thread = _thread.get_ident() == self._main_thread
        if on_main_thread:
            self._sending = True
        try:
            held = self._take_held(message)
            try:
                self._channel.send(message, after=held)
            except FrameTooLarge as too_large:
                (size,) = too_large.args
                smaller = {"text/plain": left_out(" and ".join(message["forms"]), size)}
                self._channel.send(message | {"forms": smaller}, after=held)
        finally:
            if on_main_thread:
                self._sending = False
        if on_main_thread and self._interrupt_is_kept and self._in_cell:
            self._stop_cell()

    def _after_fork(self):
        self._channel.forget()
