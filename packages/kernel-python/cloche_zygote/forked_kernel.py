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
from cloche_zygote import fresh
from cloche_zygote.preload import library_folders

# What an interpreter or a library reads once, when it starts: a kernel that was started before cannot follow it.
_READ_AT_START = ("PYTHON", "LD_", "GLIBC_", "MALLOC_", "OPENBLAS_", "GOTO_", "NPY_", "OPENSSL_")
# All but these, which can still be followed (`threads`).
_FOLLOWED = ("OPENBLAS_NUM_THREADS",)
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
        self._loaded.kernel.run(channel, Place(self._loaded))


class Place:
    """The working directory and environment of a forked kernel, which it may be given long before its first cell."""

    def __init__(self, loaded):
        self._loaded = loaded
        self._env = {}
        self._had_user_site = False
        sys.path[0] = ""
        self._path = sys.path[:]
        import_hook.install()
        loaded.parked.install()

    def take(self, cwd, env):
        """Works there from now on. Why it cannot, or None."""
        self._env = env
        misfit = self.misfit()
        if misfit is None:
            os.environ.clear()
            os.environ.update(env)
            mark = env[_MARK].encode()
            ctypes.memmove(self._loaded.mark_address, mark, len(mark))
            os.chdir(cwd)
            time.tzset()
            locale.setlocale(locale.LC_CTYPE, "")
            self._take_user_site()
        return misfit

    def misfit(self):
        """Why an interpreter started in this sandbox now would not be as this one is, or None."""
        name = next((name for name in self._env if name.startswith(_READ_AT_START) and name not in _FOLLOWED), None)
        if name is not None:
            return f"{name} is set"
        if library_folders() != self._loaded.folders:
            return "libraries were installed"
        names = _names_in(_user_site(self._env))
        if any(name.endswith(".pth") for name in names):
            return "the user's libraries have paths of their own"
        if names and not self._had_user_site:
            self._take_user_site()
        return None

    def _take_user_site(self):
        """Where Python has it: before the libraries of all users if it was there at the start, else last."""
        site.USER_BASE = site.USER_SITE = None
        sys.path[:] = self._path
        folder = site.getusersitepackages()
        self._had_user_site = os.path.isdir(folder)
        if not self._had_user_site:
            add_user_site()
            return
        places = (index for index, path in enumerate(sys.path) if path.endswith("dist-packages"))
        sys.path.insert(next(places, len(sys.path)), folder)


def _user_site(env):
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return os.path.join(env.get("HOME", "/"), ".local/lib", version, "site-packages")


def _names_in(folder):
    try:
        return os.listdir(folder)
    except OSError:
        return []
