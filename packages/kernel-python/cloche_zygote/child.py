# SPDX-License-Identifier: Apache-2.0
"""What a forked child does on its way, wherever it comes from. A step that fails ends it; user code comes after the last.

SECURITY: e2e/security/forked-kernels.test.ts compares what comes out of this with a kernel that was started inside, and
attacks it from there.
"""

import os
import resource
import signal
import socket
import sys

from cloche_zygote import syscalls

_MASK = 0o022


def leave_session():
    os.setsid()
    os.umask(_MASK)


def close_inherited(control):
    """Every descriptor of the zygote is gone before the first one of the sandbox is opened."""
    control.detach()
    syscalls.close_from(0)


def pipe_paths(place, kernel_id):
    """Where the agent finds the other ends of standard output and error."""
    return [os.path.join(place, f"{kernel_id}.{name}") for name in ("stdout", "stderr")]


def meet_agent(place, kernel_id):
    """Takes its pipes to the agent for standard output and error, as descriptors 1 and 2, and connects to it."""
    os.open("/dev/null", os.O_RDONLY)
    for number, path in enumerate(pipe_paths(place, kernel_id), start=1):
        _open_pipe(path, number)
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.connect(os.path.join(place, "kernels.sock"))
    return connection


def _open_pipe(path, number):
    # For both first: opening for one alone would wait for the other.
    both = os.open(path, os.O_RDWR)
    write = os.open(path, os.O_WRONLY)
    os.close(both)
    if write == number:
        os.set_inheritable(number, True)
    else:
        os.dup2(write, number)
        os.close(write)


def become_user(user, limits):
    """User code's own rights: none but those of its user id."""
    for number, value in limits:
        resource.setrlimit(number, (value, value))
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    # Its files in /proc are its own again, as after an exec: a program may open /dev/stdout.
    syscalls.set_dumpable(True)


def restore_signals():
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)


class ImportsBlocked:
    """SECURITY: while a child has more rights than a user's, nothing that lies in the sandbox becomes code of it."""

    def __enter__(self):
        self._finders = sys.meta_path[:]
        sys.meta_path[:] = [self]

    def find_spec(self, name, path=None, target=None):
        raise ImportError(f"{name} is not to be loaded here")

    def __exit__(self, *exception):
        sys.meta_path[:] = self._finders
