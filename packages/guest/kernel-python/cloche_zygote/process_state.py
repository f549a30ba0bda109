# SPDX-License-Identifier: Apache-2.0
"""Renews state that two forks of one process must not share, such as random seeds and process ids."""

import os
import sys
from typing import Any

_ENTROPY_BYTES = 64
# Words in the state of a Mersenne Twister.
_STATE_WORDS = 624


def reseed_generators(zygote_pid):
    """Seeds the generators that the zygote has loaded. Those of other modules are seeded when they are imported."""
    import random

    random.seed()
    openssl = sys.modules.get("_ssl")
    if openssl is not None and os.getpid() == zygote_pid:
        # OpenSSL seeds itself again when its process id has changed. In a sandbox the id may equal that of the zygote.
        openssl.RAND_add(os.urandom(_ENTROPY_BYTES), float(_ENTROPY_BYTES))
    uuid = sys.modules.get("uuid")
    if uuid is not None:
        vars(uuid).update(_last_timestamp=None, _node=None)
    tempfile = sys.modules.get("tempfile")
    if tempfile is not None:
        vars(tempfile).update(_name_sequence=None, tempdir=None)
    process = sys.modules.get("multiprocessing.process")
    if process is not None:
        process._current_process._config["authkey"] = process.AuthenticationString(os.urandom(32))


def forget_seed_of_numpy():
    """Seeds numpy's global generator in the zygote: one that knows its seed derives the same seeds in each kernel."""
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed()


def reseed_numpy():
    """Seeds numpy's global generator in a kernel that imports numpy, in a quarter of the time that `seed` takes."""
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        words = memoryview(os.urandom(4 * _STATE_WORDS)).cast("I")
        numpy_random.set_state(("MT19937", words, _STATE_WORDS))


def refresh_process_ids():
    """Renews what Python has stored about its process."""
    import threading

    main: Any = threading.main_thread()
    main._set_native_id()
    sys.orig_argv[:] = [sys.executable, ""]
