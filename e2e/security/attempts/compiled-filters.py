"""Makes the kernel compile filters for this process. Prints the outcome of each way: `done` or its errno."""

import ctypes
import errno
import json
import os
import socket
import struct

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
PRCTL, SECCOMP, SETSOCKOPT = {"x86_64": (157, 317, 54), "aarch64": (167, 277, 208)}[os.uname().machine]
ALLOW = struct.pack("HBBI", 0x06, 0, 0, 0x7FFF0000)
code = ctypes.create_string_buffer(ALLOW, len(ALLOW))
program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", 1, ctypes.addressof(code)))
PR_SET_NO_NEW_PRIVS, PR_SET_NAME, PR_SET_SECCOMP = 38, 15, 22
# The kernel reads only the lower half of these arguments.
UPPER = 1 << 32
datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
datagrams.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)


def call(number, *arguments):
    return lambda: libc.syscall(
        ctypes.c_long(number), *(ctypes.c_void_p(a) if isinstance(a, int) else a for a in arguments)
    )


def attach(level, name):
    return call(SETSOCKOPT, datagrams.fileno(), level, name, program, len(program.raw) - 1)


FILTERS = {
    "a filter of system calls": call(SECCOMP, 1, 0, program),
    "a filter of system calls by prctl": call(PRCTL, PR_SET_SECCOMP, 2, program, 0, 0),
    "the same with its upper half set": call(PRCTL, PR_SET_SECCOMP | UPPER, 2, program, 0, 0),
    "a filter of a socket": attach(1, 26),
    "the same with the upper half of its level set": attach(1 | UPPER, 26),
    "the same with the upper half of its name set": attach(1, 26 | UPPER),
    "a filter of sockets that share a port": attach(1, 51),
}
OTHERS = {
    "the name of a thread": call(PRCTL, PR_SET_NAME, b"name", 0, 0, 0),
    "no new privileges": call(PRCTL, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
    "a shared port": lambda: datagrams.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1) or 0,
    "a buffer of a socket": lambda: datagrams.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536) or 0,
    "a time to live": lambda: datagrams.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, 3) or 0,
}


def outcome(act):
    reader, writer = os.pipe()
    if os.fork() == 0:
        libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        ctypes.set_errno(0)
        try:
            result = act()
            said = "done" if result == 0 else errno.errorcode.get(ctypes.get_errno(), "?")
        except OSError as error:
            said = errno.errorcode.get(error.errno, "?")
        os.write(writer, said.encode())
        os._exit(0)
    os.close(writer)
    said = os.read(reader, 100).decode()
    os.wait()
    return said


print(
    json.dumps(
        {
            kind: {name: outcome(act) for name, act in acts.items()}
            for kind, acts in {"filters": FILTERS, "others": OTHERS}.items()
        }
    )
)
