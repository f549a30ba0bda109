# SPDX-License-Identifier: Apache-2.0
"""Loads the kernel, drops its rights, and forks a child into a sandbox for each request.

The control socket carries JSON. Its owner, hostd or an agent, sends a setup and then requests, each in one piece; those
of hostd come with the descriptors of the sandbox. The zygote answers in lines: `ready`, then `entered` or `failed`.
"""

import json
import os
import signal
import socket

from cloche_zygote import child, preload, syscalls
from cloche_zygote.fork_from_host import PROCESS_FOLDER_FD, ForkFromHost
from cloche_zygote.fork_in_sandbox import ForkInSandbox
from cloche_zygote.forked_kernel import ForkedKernel

CONTROL_FD = 3
# The largest message is a setup, with two system call filters.
MAX_MESSAGE_BYTES = 256 * 1024
MAX_DESCRIPTORS = 64


class Zygote:
    """The loaded process and its control socket."""

    def __init__(self):
        # The owner may have passed on descriptors that it has inherited.
        syscalls.close_from(PROCESS_FOLDER_FD + 1)
        self._control = socket.socket(fileno=CONTROL_FD)
        setup = json.loads(self._receive()[0])
        self._method = ForkInSandbox(setup) if setup.get("within") else ForkFromHost(setup)
        self._loaded = preload.load(setup.get("imports", ()))
        # No process waits for the children. A zombie would delay the end of its sandbox.
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        self._method.confine()

    def serve(self):
        """Answers requests. Returns a kernel in each child, and never returns in the zygote."""
        self._send({"type": "ready"})
        while True:
            data, fds = self._receive()
            request = json.loads(data)
            is_child = False
            try:
                is_child = self._method.fork(fds) == 0
            except Exception as error:
                self._send_failure(request, error)
            if is_child:
                return self._enter(request, fds)
            for fd in fds:
                os.close(fd)

    def _receive(self):
        data, fds, flags, _ = socket.recv_fds(self._control, MAX_MESSAGE_BYTES, MAX_DESCRIPTORS)
        if not data:
            # The owner has closed the socket.
            os._exit(0)
        if flags & (socket.MSG_CTRUNC | socket.MSG_TRUNC):
            os._exit(1)
        return data, fds

    def _enter(self, request, fds):
        """Runs in the child. An error ends it, before any code of the sandbox has run in it."""
        try:
            with child.ImportsBlocked():
                self._method.enter(fds)
                self._send({"type": "entered", "id": request["id"]})
                child.close_inherited(self._control)
                connection = self._method.connect_to_agent(request["kernelId"])
                child.restore_signals()
            return ForkedKernel(self._loaded, connection, request["kernelId"])
        except BaseException as error:
            if self._control.fileno() >= 0:
                self._send_failure(request, error)
            os._exit(1)

    def _send_failure(self, request, error):
        self._send({"type": "failed", "id": request["id"], "message": f"{type(error).__name__}: {error}"})

    def _send(self, message):
        self._control.sendall(json.dumps(message).encode() + b"\n")
