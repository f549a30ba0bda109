# SPDX-License-Identifier: Apache-2.0
"""What no two kernels may share though they come from one process: randomness, names, and all that is of a process."""

import os
import sys

_ENTROPY_BYTES = 64


def reseed(zygote_pid):
    """Every generator that was seeded before the fork. Those of modules not loaded yet seed themselves."""
    import random

    random.seed()
    openssl = sys.modules.get("_ssl")
    if openssl is not None and os.getpid() == zygote_pid:
        # OpenSSL seeds itself anew once its process has another number, which this one, of a sandbox, happens not to have.
        openssl.RAND_add(os.urandom(_ENTROPY_BYTES), float(_ENTROPY_BYTES))
    uuid = sys.modules.get("uuid")
    if uuid is not None:
        uuid._last_timestamp = uuid._node = None
    tempfile = sys.modules.get("tempfile")
    if tempfile is not None:
        tempfile._name_sequence = tempfile.tempdir = None
    process = sys.modules.get("multiprocessing.process")
    if process is not None:
        process._current_process._config["authkey"] = process.AuthenticationString(os.urandom(32))


def reseed_numpy():
    """Once numpy is in use: its global generator alone, others are made by who uses them."""
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed()


def forget_process():
    """What Python remembers of the process that it was."""
    import threading

    threading.main_thread()._set_native_id()
    sys.orig_argv[:] = [sys.executable, ""]
