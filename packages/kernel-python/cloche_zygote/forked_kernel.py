# SPDX-License-Identifier: Apache-2.0
"""A kernel that was forked into a sandbox and waits there to become one of its contexts."""

import ctypes
import gc
import locale
import os
import site
import sys
import time

from cloche_kernel import import_hook
from cloche_kernel.channel import Channel
from cloche_kernel.user_site import add_user_site
from cloche_zygote import fresh, threads
from cloche_zygote.preload import library_folders

# What an interpreter or a library reads once, when it starts: a kernel that was started before cannot follow it.
_READ_AT_START = ("PYTHON", "LD_", "GLIBC_", "MALLOC_", "OPENBLAS_", "GOTO_", "NPY_", "OPENSSL_")
# All but these, which can still be followed (`threads`).
_FOLLOWED = ("OPENBLAS_NUM_THREADS",)
# A context that waits for a kernel gives it its place within this.
AT_ONCE_MS = 100
_MARK = "CLOCHE_KERNEL"


class ForkedKernel:
    def __init__(self, loaded, connection, kernel_id):
        self._loaded = loaded
        self._connection = connection
        self._kernel_id = kernel_id

    def run(self):
        """Until the agent is gone. A kernel that its context does not fit says so and ends."""
        gc.enable()
        fresh.reseed(self._loaded.pid)
        fresh.forget_process()
        channel = Channel.claim(self._connection.detach())
        channel.send({"type": "hello", "kernelId": self._kernel_id, "pid": os.getpid()})
        assignment = channel.receive(AT_ONCE_MS)
        if assignment is None:
            # There is time: what the first cell would have to copy from the zygote is copied now.
            self._loaded.kernel.warm_up()
            assignment = channel.receive()
        misfit = self._misfit(assignment["env"])
        if misfit is not None:
            channel.send({"type": "unfit", "reason": misfit})
            os._exit(0)
        self._adapt(assignment)
        self._loaded.kernel.run(channel)

    def _misfit(self, env):
        """Why an interpreter started in this sandbox now would not be as this one is, or None."""
        name = next((name for name in env if name.startswith(_READ_AT_START) and name not in _FOLLOWED), None)
        if name is not None:
            return f"{name} is set"
        if library_folders() != self._loaded.folders:
            return "libraries were installed"
        folder = _user_site(env)
        if any(name.endswith(".pth") for name in _names_in(folder)):
            return "the user's libraries have paths of their own"
        return None

    def _adapt(self, assignment):
        env, cwd = assignment["env"], assignment["cwd"]
        os.environ.clear()
        os.environ.update(env)
        mark = env[_MARK].encode()
        ctypes.memmove(self._loaded.mark_address, mark, len(mark))
        os.chdir(cwd)
        time.tzset()
        locale.setlocale(locale.LC_CTYPE, "")
        site.USER_BASE = site.USER_SITE = None
        _add_user_site()
        sys.path[0] = ""
        import_hook.install()
        self._loaded.parked.install(_on_modules_shown)
        self._loaded.kernel.settle()


def _on_modules_shown():
    fresh.reseed_numpy()
    threads.allow_as_many_as_wanted()


def _user_site(env):
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return os.path.join(env.get("HOME", "/"), ".local/lib", version, "site-packages")


def _names_in(folder):
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _add_user_site():
    """Where Python has it: before the libraries of all users if it was there at the start, else last."""
    folder = site.getusersitepackages()
    if not os.path.isdir(folder):
        add_user_site()
        return
    places = (index for index, path in enumerate(sys.path) if path.endswith("dist-packages"))
    sys.path.insert(next(places, len(sys.path)), folder)
