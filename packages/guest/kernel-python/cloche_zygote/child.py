# SPDX-License-Identifier: Apache-2.0
"""The steps from a fork to a kernel that are the same on the host and in a sandbox.

A step that fails ends the child. No user code runs before the last one.

SECURITY: e2e/security/forked-kernels.test.ts compares the result with a kernel that was started inside, and attacks it.
"""

import os
import resource
import signal
import socket
import sys

from cloche_zygote import syscalls

_MASK = 0o022


def start_session():
    """Starts a session and sets the umask."""
    os.setsid()
    os.umask(_MASK)


def close_inherited(control):
    """Closes all descriptors of the zygote, before the first one of the sandbox is opened."""
    control.detach()
    syscalls.close_from(0)


def pipe_paths(folder, kernel_id):
    """Returns the paths of the pipes for standard output and error, which the agent reads."""
    return [os.path.join(folder, f"{kernel_id}.{name}") for name in ("stdout", "stderr")]


def connect_to_agent(folder, kernel_id):
    """Opens the pipes for standard output and error as descriptors 1 and 2, and returns a connection to the agent."""
    # Programs that a cell starts read the end of their input.
    os.set_inheritable(os.open("/dev/null", os.O_RDONLY), True)
    for number, path in enumerate(pipe_paths(folder, kernel_id), start=1):
        _open_pipe(path, number)
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.connect(os.path.join(folder, "kernels.sock"))
    return connection


def _open_pipe(path, number):
    # Opened for both directions first, as opening for writing alone waits for a reader.
    both = os.open(path, os.O_RDWR)
    write = os.open(path, os.O_WRONLY)
    os.close(both)
    if write == number:
        os.set_inheritable(number, True)
    else:
        os.dup2(write, number)
        os.close(write)


def become_user(user, limits):
    """Takes the user id and limits of user code, and drops all other rights."""
    for number, value in limits:
        resource.setrlimit(number, (value, value))
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    # The process owns its files in /proc again, as after an exec: a program may open /dev/stdout.
    syscalls.set_dumpable(True)


def restore_signals():
    """Sets the handlers that a new interpreter has."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)


class ImportsBlocked:
    """SECURITY: no file of the sandbox is imported while a child has more rights than its user."""

    def __enter__(self):
        self._finders = sys.meta_path[:]
        sys.meta_path[:] = [self]

    def find_spec(self, name, path=None, target=None):
        """Raises ImportError for every module."""
        raise ImportError(f"{name} may not be imported here")

    def __exit__(self, *exception):
        sys.meta_path[:] = self._finders
