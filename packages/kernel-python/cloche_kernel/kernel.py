# SPDX-License-Identifier: Apache-2.0
"""The kernel's two threads: the main one runs cells, the other one listens to the agent."""

import _signal
import _thread
import itertools
import os
import signal
import sys
from queue import SimpleQueue

from cloche_kernel import import_hook
from cloche_kernel.channel import ChannelClosed, FrameTooLarge, frame
from cloche_kernel.errors import to_error
from cloche_kernel.event_loop import CellLoop
from cloche_kernel.forms import left_out, to_forms
from cloche_kernel.shell import Shell
from cloche_kernel.streams import StandardStreams

PROTOCOL_VERSION = 1

# Python drops a signal that arrives while it waits in C with SIGINT ignored (`os.system`), so it is sent again.
INTERRUPT_REPEAT_MS = 50

# A longer result is on its way while the cell comes to its end.
HELD_CHARACTERS = 16 * 1024

# An agent that is this late with its answer has other worries than the order of outputs.
SYNC_TIMEOUT_SECONDS = 5


class Kernel:
    """Made before it is known whom it will serve: the constructor touches nothing that is of one sandbox alone."""

    def __init__(self):
        self._channel = None
        self._streams = None
        self._pid = os.getpid()
        self._cells = SimpleQueue()
        self._loop = CellLoop()
        self._shell = Shell.create(self._publish, self._loop.run)
        # Which run the main thread executes, which it is about to, and which it is to stop; all change under the lock.
        self._lock = _thread.allocate_lock()
        self._run_id = None
        self._next_run_id = None
        self._interrupted = None
        self._in_cell = False
        # A frame cut in two by an exception would be the end of the protocol.
        self._sending = False
        # Results that go with the next message.
        self._held = []
        self._main_thread = _thread.get_ident()
        self._sync_numbers = itertools.count()
        self._syncs = {}
        import_hook.install()

    def warm_up(self, code):
        """Runs a cell, for what is loaded and learned with the first ones of its kind, and leaves no trace of it."""
        with self._shell.rehearsal():
            self._run_cell(code)

    def run(self, channel, place=None):
        """
        Takes the channel and descriptors 1 and 2, and never returns. It is ready at once, or each time that `place` took
        an assignment; `place` checks before the first cell that it still is what it was assigned.
        """
        self._channel = channel
        self._pid = os.getpid()
        self._streams = StandardStreams()
        os.register_at_fork(after_in_child=self._after_fork)
        signal.signal(signal.SIGINT, self._on_sigint)
        try:
            _thread.start_new_thread(self._listen, ())
        except RuntimeError:
            # The sandbox has no process left: the agent says so, in words of its own.
            os._exit(1)
        if place is None:
            self._tell_ready()
        try:
            while True:
                message = self._cells.get()
                if message["type"] == "assign":
                    self._take_place(place, message)
                elif message.get("rehearsal"):
                    with self._shell.rehearsal():
                        self._execute(message["runId"], message["code"])
                else:
                    self._check_place(place)
                    place = None
                    self._execute(message["runId"], message["code"])
        except OSError:
            # The channel broke, or user code has closed it.
            os._exit(1)

    def _tell_ready(self):
        self._channel.send({"type": "ready", "protocolVersion": PROTOCOL_VERSION})

    def _take_place(self, place, assignment):
        self._check(place.take(assignment["cwd"], assignment["env"]))
        self._shell.starting_dir = os.getcwd()
        self._shell.home_dir = os.path.expanduser("~")
        self._tell_ready()

    def _check_place(self, place):
        if place is not None:
            self._check(place.misfit())

    def _check(self, misfit):
        if misfit is not None:
            self._channel.send({"type": "unfit", "reason": misfit})
            os._exit(0)

    # The listening thread

    def _listen(self):
        try:
            while True:
                pending = self._interrupted is not None
                message = self._channel.receive(INTERRUPT_REPEAT_MS if pending else None)
                if message is None:
                    self._signal_again()
                elif message["type"] == "execute":
                    with self._lock:
                        self._next_run_id = message["runId"]
                    self._cells.put(message)
                elif message["type"] == "assign":
                    self._cells.put(message)
                elif message["type"] == "interrupt":
                    self._interrupt(message["runId"])
                elif message["type"] == "synced":
                    waiting = self._syncs.pop(message["sync"], None)
                    if waiting is not None:
                        waiting.release()
        except (ChannelClosed, OSError):
            os._exit(0)

    def _interrupt(self, run_id):
        """The first one stops the cell; one that comes while that has no effect also reaches what the cell started."""
        with self._lock:
            if run_id not in (self._run_id, self._next_run_id):
                return
            repeated = self._interrupted == run_id
            self._interrupted = run_id
            if run_id != self._run_id:
                # It stops as soon as it begins.
                return
            if repeated:
                os.killpg(0, signal.SIGINT)
            signal.pthread_kill(self._main_thread, signal.SIGINT)

    def _signal_again(self):
        with self._lock:
            if self._interrupted is not None and self._interrupted == self._run_id:
                signal.pthread_kill(self._main_thread, signal.SIGINT)

    # The main thread

    def _on_sigint(self, number, frame):
        # Outside of a cell there is nothing to stop; what user code sends to itself counts like a terminal's.
        # While a frame is being sent the request stays, and the listening thread signals again.
        if self._in_cell and not self._sending:
            self._interrupted = None
            raise KeyboardInterrupt

    def _execute(self, run_id, code):
        self._streams.repair()
        # A cell may have put its own handler in place; that lasts until the cell's end. Without what `signal` makes of its
        # arguments and its result, which takes ten times as long.
        _signal.signal(_signal.SIGINT, self._on_sigint)
        with self._lock:
            self._run_id = run_id
            self._next_run_id = None
        error = self._run_cell(code)
        with self._lock:
            self._run_id = None
            self._interrupted = None
        if os.getpid() != self._pid:
            # The child of a fork in the cell has come to the cell's end: the run is its parent's to report.
            self._streams.flush()
            os._exit(0)
        self._streams.flush()
        done = {"type": "done", "runId": run_id, "executionCount": self._shell.execution_count}
        if error is not None:
            done["error"] = error
        self._channel.send(done, after=self._take_held(done))

    def _run_cell(self, code):
        """The cell's error, or None. Nothing that a cell raises gets further than this."""
        exception = None
        try:
            self._in_cell = True
            if self._interrupted is not None:
                signal.raise_signal(signal.SIGINT)
            exception = self._run_in_shell(code)
        except BaseException as raised:
            exception = raised
        while self._in_cell:
            try:
                self._in_cell = False
            except KeyboardInterrupt as late:
                exception = late if exception is None else exception
        return None if exception is None else to_error(exception)

    def _run_in_shell(self, code):
        shell = self._shell
        shell.execution_count += 1
        shell.shown_exception = None
        result = shell.run(code)
        raised = (result.error_before_exec, result.error_in_exec, shell.shown_exception)
        shell.shown_exception = None
        self._publish_figures()
        return next((exception for exception in raised if exception is not None), None)

    def _publish_figures(self):
        backend = sys.modules.get("cloche_kernel.matplotlib_backend")
        if backend is not None:
            backend.publish_open_figures()

    def _publish(self, role, bundle, is_last=False):
        """Outputs of a run, in the order of what it printed. Without a run there is nobody to send them to."""
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
        # The cell may print right after this: that must not overtake the output.
        number = next(self._sync_numbers)
        waiting = self._syncs[number] = _thread.allocate_lock()
        waiting.acquire()
        self._send(message | {"sync": number})
        waiting.acquire(timeout=SYNC_TIMEOUT_SECONDS)

    def _hold(self, message):
        """The end of the cell follows at once and takes it along, unless it is large: one wake-up for the agent, not two."""
        if len(message["forms"].get("text/plain", "")) > HELD_CHARACTERS or len(message["forms"]) > 1:
            return False
        self._held.append(message)
        return True

    def _take_held(self, message):
        """The frames that go before `message`. With what was printed flushed, says of all whether the agent has taken it."""
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

    def _after_fork(self):
        self._channel.forget()
