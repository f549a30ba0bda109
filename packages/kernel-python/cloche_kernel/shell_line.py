# SPDX-License-Identifier: Apache-2.0
"""Runs `!command` lines."""

import os
import signal
import subprocess

# Time in seconds in which a command that is interrupted may end itself.
INTERRUPT_GRACE_SECONDS = 0.3


def run_shell_line(command):
    """Runs a command on the cell's streams and returns its exit code.

    An interrupt does what closing its terminal does, after a Ctrl-C: what the command has detached lives on.
    """
    child = subprocess.Popen(command, shell=True, executable="/bin/bash", stdin=subprocess.DEVNULL, process_group=0)
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
