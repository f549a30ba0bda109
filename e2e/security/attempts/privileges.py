"""Tries to raise the privileges of the process, and to reach what belongs to another user."""

import ctypes
import errno
import os
import shutil
import signal
import stat
import subprocess

libc = ctypes.CDLL(None, use_errno=True)
outcomes = {}


def attempt(name):
    def run(act):
        try:
            result = act()
            outcomes[name] = "done" if result is None else result
        except OSError as error:
            outcomes[name] = errno.errorcode.get(error.errno, "?")
        except Exception as error:
            outcomes[name] = f"{type(error).__name__}: {error}"

    return run


def checked(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), "")


folder = given["folder"]


@attempt("make a device of the machine's memory")
def _():
    path = f"{folder}/mem-{os.getpid()}"
    os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(1, 1))
    os.unlink(path)


@attempt("make a device of a disk")
def _():
    path = f"{folder}/disk-{os.getpid()}"
    os.mknod(path, 0o600 | stat.S_IFBLK, os.makedev(7, 0))
    os.unlink(path)


@attempt("become root by a program with root's set-user-id bit")
def _():
    status = subprocess.run([given["setuid"], "/proc/self/status"], capture_output=True, text=True).stdout
    effective = next(line for line in status.splitlines() if line.startswith("Uid:")).split()[2]
    return "done" if effective == "0" else "refused"


@attempt("trace a process of another user")
def _():
    checked(libc.ptrace(16, given["pid"], None, None))
    os.waitpid(given["pid"], 0x40000000)
    libc.ptrace(17, given["pid"], None, None)


@attempt("write into the memory of another user's process")
def _():
    os.close(os.open(f"/proc/{given['pid']}/mem", os.O_RDWR))


@attempt("see the files of another user's process")
def _():
    os.listdir(f"/proc/{given['pid']}/fd")


@attempt("go through the root of another user's process")
def _():
    os.listdir(f"/proc/{given['pid']}/root/")


@attempt("signal a process of another user")
def _():
    os.kill(given["pid"], 0)


@attempt("get more of the processor than others")
def _():
    os.setpriority(os.PRIO_PROCESS, 0, os.getpriority(os.PRIO_PROCESS, 0) - 1)


@attempt("become real-time")
def _():
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))


@attempt("give a program a capability of the machine's")
def _():
    path = f"{folder}/capable-{os.getpid()}"
    shutil.copy("/bin/true", path)
    try:
        # Version 2 with CAP_SYS_ADMIN permitted, which holds in every user namespace.
        os.setxattr(path, "security.capability", bytes.fromhex("0100000200002000" + "00" * 12))
        capabilities = os.getxattr(path, "security.capability")
        # In a user namespace the kernel stores version 3 instead, which holds in that namespace only.
        return "done" if len(capabilities) == 20 and not given["inside"] else "holds inside alone"
    finally:
        os.unlink(path)


print(json.dumps(outcomes))
