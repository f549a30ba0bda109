# SPDX-License-Identifier: Apache-2.0
"""A kernel that was forked into a sandbox and waits to serve a context."""

import ctypes
import gc
import locale
import os
import site
import sys
import time

from cloche_kernel import import_hook, ipython_fallback
from cloche_kernel.channel import Channel
from cloche_kernel.user_site import add_user_site
from cloche_zygote import process_state
from cloche_zygote.preload import library_folders

# Variables that an interpreter or a library reads once, at its start, so that a running kernel cannot apply them.
_READ_AT_START = ("PYTHON", "LD_", "GLIBC_", "MALLOC_", "OPENBLAS_", "GOTO_", "NPY_", "OPENSSL_")
# Exceptions that a running kernel can apply (`blas_threads`).
_APPLICABLE = ("OPENBLAS_NUM_THREADS",)
_MARK = "CLOCHE_KERNEL"


class ForkedKernel:
    """A forked kernel with its connection to the agent."""

    def __init__(self, loaded, connection, kernel_id):
        self._loaded = loaded
        self._connection = connection
        self._kernel_id = kernel_id

    def run(self):
        """Serves the agent until it closes the connection. Ends if the kernel does not match its context."""
        gc.enable()
        process_state.reseed_generators(self._loaded.pid)
        process_state.refresh_process_ids()
        channel = Channel.claim(self._connection.detach())
        channel.send({"type": "hello", "kernelId": self._kernel_id, "pid": os.getpid()})
        self._loaded.kernel.run(channel, ContextAssignment(self._loaded))


class ContextAssignment:
    """The working directory and environment of a forked kernel, which it may get long before its first cell."""

    def __init__(self, loaded):
        self._loaded = loaded
        self._env = {}
        sys.path[0] = ""
        self._path = sys.path[:]
        import_hook.install()
        loaded.modules.install()

    def apply(self, cwd, env):
        """Takes the directory and environment. Returns why the kernel does not match them, or None."""
        self._env = env
        mismatch = self.mismatch()
        if mismatch is None:
            os.environ.clear()
            os.environ.update(env)
            mark = env[_MARK].encode()
            ctypes.memmove(self._loaded.mark_address, mark, len(mark))
            os.chdir(cwd)
            time.tzset()
            locale.setlocale(locale.LC_CTYPE, "")
            site.USER_BASE = site.USER_SITE = None
            sys.path[:] = self._path
            add_user_site()
        return mismatch

    def mismatch(self):
        """Returns how this kernel differs from one that is started in this sandbox now, or None if it does not."""
        name = next((name for name in self._env if name.startswith(_READ_AT_START) and name not in _APPLICABLE), None)
        if name is not None:
            return f"{name} is set"
        if library_folders() != self._loaded.folders:
            return "libraries were installed"
        names = _names_in(_user_site(self._env))
        if ipython_fallback.is_used() and "IPython" in names:
            return "the user has an IPython"
        if any(name.endswith(".pth") for name in names):
            return "the user's libraries have paths of their own"
        if any(name.partition(".")[0] in self._loaded.modules.library_names for name in names):
            return "the user has another version of a preloaded library"
        return None


def _user_site(env):
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return os.path.join(env.get("HOME", "/"), ".local/lib", version, "site-packages")


def _names_in(folder):
    try:
        return os.listdir(folder)
    except OSError:
        return []
