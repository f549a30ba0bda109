# SPDX-License-Identifier: Apache-2.0
"""Loads, confines itself, and forks a child into a sandbox for each request.

The control socket carries lines of JSON. Hostd sends the setup, then requests, each in one piece with the sandbox's
descriptors; it is told `ready`, and of each request whether its child is inside.
"""

import base64
import json
import os
import signal
import socket

from cloche_zygote import child, huge_pages, preload, syscalls
from cloche_zygote.forked_kernel import ForkedKernel

CONTROL_FD = 3
PROCESS_FOLDER_FD = 4
# A setup with its two filters is the largest.
MAX_MESSAGE_BYTES = 256 * 1024
MAX_DESCRIPTORS = 64


class Setup:
    """The same for all kernels of this zygote."""

    def __init__(self, message):
        self.own_filter = base64.b64decode(message["ownFilter"])
        self.own_capabilities = message["ownCapabilities"]
        self.kernel_filter = base64.b64decode(message["kernelFilter"])
        self.kernel_capabilities = message["kernelCapabilities"]
        self.open_files = message["openFiles"]
        self.user = message["uid"]
        self.agent_place = message["agentPlace"]
        self.namespaces = (
            syscalls.CLONE_NEWUSER
            | syscalls.CLONE_NEWNS
            | syscalls.CLONE_NEWNET
            | syscalls.CLONE_NEWIPC
            | syscalls.CLONE_NEWUTS
            | syscalls.CLONE_NEWCGROUP
            | (syscalls.CLONE_NEWTIME if message["timeNamespace"] else 0)
        )


class Zygote:
    def __init__(self):
        # What hostd itself may have inherited from whoever started it.
        syscalls.close_from(PROCESS_FOLDER_FD + 1)
        self._control = socket.socket(fileno=CONTROL_FD)
        self._setup = Setup(json.loads(self._receive()[0]))
        self._own_process = os.pidfd_open(os.getpid())
        self._loaded = preload.load()
        huge_pages.collapse(PROCESS_FOLDER_FD)
        os.close(PROCESS_FOLDER_FD)
        self._confine()

    def serve(self):
        """Returns a kernel in each child, and never in the zygote itself."""
        self._tell({"type": "ready"})
        while True:
            data, fds = self._receive()
            request = json.loads(data)
            is_child = False
            try:
                is_child = self._fork(fds[0]) == 0
            except Exception as error:
                self._tell_failure(request, error)
            if is_child:
                return self._enter(request, fds)
            for fd in fds:
                os.close(fd)

    def _receive(self):
        data, fds, flags, _ = socket.recv_fds(self._control, MAX_MESSAGE_BYTES, MAX_DESCRIPTORS)
        if not data:
            # Hostd is gone.
            os._exit(0)
        if flags & (socket.MSG_CTRUNC | socket.MSG_TRUNC):
            os._exit(1)
        return data, fds

    def _fork(self, init):
        """A child whose number is one of the sandbox; the rest of the sandbox it enters by itself."""
        syscalls.set_namespace(init, syscalls.CLONE_NEWPID)
        pid = None
        try:
            pid = os.fork()
            return pid
        finally:
            if pid != 0:
                syscalls.set_namespace(self._own_process, syscalls.CLONE_NEWPID)

    def _enter(self, request, fds):
        """In the child. What fails here ends it, and no code of the sandbox has run in it by then."""
        setup = self._setup
        try:
            with child.ImportsBlocked():
                child.enter(fds[0], fds[1:], setup)
                self._tell({"type": "entered", "id": request["id"]})
                child.close_inherited(self._control)
                connection = child.meet_agent(request["kernelId"], setup.agent_place, setup.user)
                child.become_user(setup.user, setup.open_files)
                child.restore_signals()
            return ForkedKernel(self._loaded, connection, request["kernelId"])
        except BaseException as error:
            if self._control.fileno() >= 0:
                self._tell_failure(request, error)
            os._exit(1)

    def _confine(self):
        # Children that end are nobody's to wait for: none of them may stay and hold its sandbox's end up.
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        syscalls.set_dumpable(False)
        syscalls.bound_capabilities(self._setup.own_capabilities)
        syscalls.filter_system_calls(self._setup.own_filter)

    def _tell_failure(self, request, error):
        self._tell({"type": "failed", "id": request["id"], "message": f"{type(error).__name__}: {error}"})

    def _tell(self, message):
        self._control.sendall(json.dumps(message).encode() + b"\n")
