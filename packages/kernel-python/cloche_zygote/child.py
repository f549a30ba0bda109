# SPDX-License-Identifier: Apache-2.0
"""The way of a forked child into a sandbox. A step that fails ends it; user code comes after the last one.

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


def enter(init, groups, setup):
    """Into the control groups and namespaces of the sandbox, and down to what its root may do."""
    for group in groups:
        # "0" is whoever writes it: no number that could be another's by now.
        os.write(group, b"0")
    # SECURITY: from the first namespace on nobody in the sandbox may look into this process: its memory belongs to the
    # host's user namespace, so while it is not dumpable no root of a sandbox can trace it.
    syscalls.set_dumpable(False)
    syscalls.set_namespace(init, setup.namespaces)
    os.setsid()
    os.umask(_MASK)
    syscalls.join_new_keyring()
    os.setgroups([])
    os.setresgid(0, 0, 0)
    os.setresuid(0, 0, 0)
    # SECURITY: no file of the sandbox has been touched yet; from here on this is no more than the sandbox's root.
    syscalls.bound_capabilities(setup.kernel_capabilities)
    syscalls.filter_system_calls(setup.kernel_filter)


def close_inherited(control):
    """Every descriptor of outside is gone before the first one of the sandbox is opened."""
    control.detach()
    syscalls.close_from(0)


def meet_agent(kernel_id, place, user):
    """Connects to the agent and takes pipes to it for standard output and error, as descriptors 0 to 2 and a socket."""
    os.open("/dev/null", os.O_RDONLY)
    for number, name in ((1, "stdout"), (2, "stderr")):
        _open_pipe(os.path.join(place, f"{kernel_id}.{name}"), number, user)
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.connect(os.path.join(place, "kernels.sock"))
    return connection


def _open_pipe(path, number, user):
    os.mkfifo(path, 0o600)
    # For both first: opening for one alone would wait for the other.
    both = os.open(path, os.O_RDWR)
    os.fchown(both, user, user)
    write = os.open(path, os.O_WRONLY)
    os.close(both)
    if write == number:
        os.set_inheritable(number, True)
    else:
        os.dup2(write, number)
        os.close(write)


def become_user(user, open_files):
    """User code's own rights: none but those of its user id."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (open_files, open_files))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
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
