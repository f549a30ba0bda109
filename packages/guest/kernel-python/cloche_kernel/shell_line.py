# SPDX-License-Identifier: Apache-2.0
"""Runs `!command` lines."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import Any

# Time in seconds in which a command that is interrupted may end itself.
INTERRUPT_GRACE_SECONDS = 0.3

# Images may lack bash.
_SHELL = next((shell for shell in ("/bin/bash", "/bin/sh") if os.path.exists(shell)), "/bin/sh")
_IN_OWN_GROUP: dict[str, Any] = {"process_group": 0} if sys.version_info >= (3, 11) else {"preexec_fn": os.setpgrp}


def run_shell_line(command):
    """Runs a command on the cell's streams and returns its exit code.

    An interrupt does what closing its terminal does, after a Ctrl-C: what the command has detached lives on.
    """
    child = subprocess.Popen(command, shell=True, executable=_SHELL, stdin=subprocess.DEVNULL, **_IN_OWN_GROUP)
    try:
        # Unlike `wait` of `subprocess`, it does not give the command time of its own at an interrupt.
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    except KeyboardInterrupt:
        _interrupt(child)
        raise
    return child.wait()


def _interrupt(child):
    os.killpg(child.pid, signal.SIGINT)
    try:
        child.wait(INTERRUPT_GRACE_SECONDS)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        os.killpg(child.pid, signal.SIGHUP)
        child.kill()
        child.wait()
