# SPDX-License-Identifier: Apache-2.0
"""What no two kernels may share though they come from one process: randomness, names, and all that is of a process."""

import os
import sys

_ENTROPY_BYTES = 64
# Of a Mersenne Twister.
_STATE_WORDS = 624


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


def forget_seed_of_numpy():
    """Of its global generator: while that knows its seed, it gives seeds to others, in each kernel the same ones."""
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed()


def reseed_numpy():
    """Once numpy is in use: its global generator alone, others are made by who uses them. A quarter of the work of `seed`."""
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        words = memoryview(os.urandom(4 * _STATE_WORDS)).cast("I")
        numpy_random.set_state(("MT19937", words, _STATE_WORDS))


def forget_process():
    """What Python remembers of the process that it was."""
    import threading

    threading.main_thread()._set_native_id()
    sys.orig_argv[:] = [sys.executable, ""]
