# SPDX-License-Identifier: Apache-2.0
"""System calls that Python 3.11 does not offer. They are bound before the first fork, so a child loads nothing."""

import ctypes
import os

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long

CLONE_NEWPID = 0x20000000

_PR_SET_DUMPABLE = 4
_PR_CAPBSET_DROP = 24
_PR_SET_SECCOMP = 22
_PR_SET_NO_NEW_PRIVS = 38
_SECCOMP_MODE_FILTER = 2
_KEYCTL_JOIN_SESSION_KEYRING = 1
_CAPABILITY_VERSION_3 = 0x20080522
_LAST_CAPABILITY = 63

# Numbers by machine, as some C libraries have no wrapper for these calls.
_NUMBERS = {
    "x86_64": {"keyctl": 250, "capset": 126, "close_range": 436},
    "aarch64": {"keyctl": 219, "capset": 91, "close_range": 436},
}[os.uname().machine]


def set_namespace(fd, kind=0):
    """Enters the namespace `fd`, or the namespaces of kind `kind` if `fd` is a process."""
    _checked(_libc.setns(fd, kind), "setns")


def set_dumpable(dumpable):
    """Sets whether other processes of the user may trace this one."""
    _prctl(_PR_SET_DUMPABLE, int(dumpable))


def close_from(first):
    """Closes all descriptors from `first` on."""
    _checked(_libc.syscall(_NUMBERS["close_range"], first, 0xFFFFFFFF, 0), "close_range")


def join_new_keyring():
    """Starts a session keyring. Does nothing on a machine without keyrings."""
    _libc.syscall(_NUMBERS["keyctl"], _KEYCTL_JOIN_SESSION_KEYRING, None)


def bound_capabilities(kept):
    """Drops all capabilities but those in `kept` (numbers), also for programs that this process executes."""
    for capability in range(_LAST_CAPABILITY + 1):
        if capability not in kept and _libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0) != 0:
            # Linux has no capability with this number or a higher one.
            break
    bits = sum(1 << capability for capability in kept)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    low, high = bits & 0xFFFFFFFF, bits >> 32
    # Effective, permitted, inheritable; low words first.
    sets = (ctypes.c_uint32 * 6)(low, low, 0, high, high, 0)
    _checked(_libc.syscall(_NUMBERS["capset"], header, sets), "capset")


def filter_system_calls(program):
    """Installs the compiled BPF `program` for this process and its children. It cannot be removed."""
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    code = ctypes.create_string_buffer(program, len(program))
    _prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(_Program(len(program) // 8, ctypes.addressof(code))))


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def _prctl(option, value, pointer=None):
    _checked(_libc.prctl(option, ctypes.c_ulong(value), pointer, None, None), "prctl")


def _checked(result, name):
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
