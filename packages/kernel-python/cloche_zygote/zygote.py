# SPDX-License-Identifier: Apache-2.0
"""Loads, confines itself, and forks a child into a sandbox for each request.

The control socket carries lines of JSON. Its owner, hostd or an agent, sends the setup, then requests, each in one piece,
hostd's with the sandbox's descriptors; it is told `ready`, and of each request whether its child is inside.
"""

import json
import os
import signal
import socket

from cloche_zygote import child, preload, syscalls
from cloche_zygote.forked_kernel import ForkedKernel
from cloche_zygote.from_outside import PROCESS_FOLDER_FD, FromOutside
from cloche_zygote.within import Within

CONTROL_FD = 3
# A setup with its two filters is the largest.
MAX_MESSAGE_BYTES = 256 * 1024
MAX_DESCRIPTORS = 64


class Zygote:
    def __init__(self):
        # What its owner itself may have inherited from whoever started it.
        syscalls.close_from(PROCESS_FOLDER_FD + 1)
        self._control = socket.socket(fileno=CONTROL_FD)
        setup = json.loads(self._receive()[0])
        self._way = Within(setup) if setup.get("within") else FromOutside(setup)
        self._loaded = preload.load()
        # Children that end are nobody's to wait for: none of them may stay and hold its sandbox's end up.
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        self._way.settle()

    def serve(self):
        """Returns a kernel in each child, and never in the zygote itself."""
        self._tell({"type": "ready"})
        while True:
            data, fds = self._receive()
            request = json.loads(data)
            is_child = False
            try:
                is_child = self._way.fork(fds) == 0
            except Exception as error:
                self._tell_failure(request, error)
            if is_child:
                return self._enter(request, fds)
            for fd in fds:
                os.close(fd)

    def _receive(self):
        data, fds, flags, _ = socket.recv_fds(self._control, MAX_MESSAGE_BYTES, MAX_DESCRIPTORS)
        if not data:
            # Its owner is gone.
            os._exit(0)
        if flags & (socket.MSG_CTRUNC | socket.MSG_TRUNC):
            os._exit(1)
        return data, fds

    def _enter(self, request, fds):
        """In the child. What fails here ends it, and no code of the sandbox has run in it by then."""
        try:
            with child.ImportsBlocked():
                self._way.enter(fds)
                self._tell({"type": "entered", "id": request["id"]})
                child.close_inherited(self._control)
                connection = self._way.meet_agent(request["kernelId"])
                child.restore_signals()
            return ForkedKernel(self._loaded, connection, request["kernelId"])
        except BaseException as error:
            if self._control.fileno() >= 0:
                self._tell_failure(request, error)
            os._exit(1)

    def _tell_failure(self, request, error):
        self._tell({"type": "failed", "id": request["id"], "message": f"{type(error).__name__}: {error}"})

    def _tell(self, message):
        self._control.sendall(json.dumps(message).encode() + b"\n")
