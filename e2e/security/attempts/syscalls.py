"""Makes system calls, each in a process of its own. Prints the outcome of each: `done` or its errno."""

import ctypes
import errno
import mmap
import os
import signal

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
zeros = ctypes.create_string_buffer(4096)
uts = os.open("/proc/self/ns/uts", os.O_RDONLY)
CURRENT = -100
NAMESPACES = {
    "mount": 0x20000,
    "cgroup": 0x2000000,
    "uts": 0x4000000,
    "ipc": 0x8000000,
    "user": 0x10000000,
    "pid": 0x20000000,
    "network": 0x40000000,
}
# Type and protocol. The kernel loads a module for each protocol that it does not have yet.
OTHER_PROTOCOLS = {
    "SCTP": (5, 132),
    "SCTP as a stream": (1, 132),
    "DCCP": (6, 0),
    "L2TP": (2, 115),
    "UDP-Lite": (2, 136),
    "MPTCP": (1, 262),
    "a protocol without a number": (2, 254),
}
FAMILIES_WITHOUT_PAIRS = {"IPv4": 2, "IPv6": 10, "packet": 17, "TIPC": 30, "cipher": 38, "hypervisor": 40, "XDP": 44}
pair = (ctypes.c_int * 2)()


def call(number, *arguments):
    given = [ctypes.c_void_p(a) if isinstance(a, int) else a for a in arguments]
    return lambda: libc.syscall(ctypes.c_long(number), *given)


def clone(flags):
    def act():
        result = libc.syscall(ctypes.c_long(56), ctypes.c_long(flags | signal.SIGCHLD), None, None, None, None)
        if result == 0:
            os._exit(0)
        return result

    return act


def call_of_32_bits():
    code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    # mov eax, 20 (getpid there); int 0x80; ret
    code.write(b"\xb8\x14\x00\x00\x00\xcd\x80\xc3")
    return ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))()


CALLS = {
    **{f"unshare a {name} namespace": call(272, flag) for name, flag in NAMESPACES.items()},
    "unshare a time namespace": call(272, 0x80),
    **{f"clone into a {name} namespace": clone(flag) for name, flag in NAMESPACES.items()},
    "clone3": call(435, zeros, 0),
    "setns": call(308, uts, 0),
    "mount": call(165, b"none", b"/mnt", b"tmpfs", 0, None),
    "umount2": call(166, b"/proc", 2),
    "pivot_root": call(155, b".", b"."),
    "open_tree": call(428, CURRENT, b"/", 1),
    "move_mount": call(429, CURRENT, b"/", CURRENT, b"/mnt", 0),
    "fsopen": call(430, b"tmpfs", 0),
    "fspick": call(433, CURRENT, b"/", 0),
    "mount_setattr": call(442, CURRENT, b"/mnt", 0, zeros, 32),
    "keyctl": call(250, 0, -3, 1),
    "add_key": call(248, b"user", b"x", b"y", 1, -2),
    "request_key": call(249, b"user", b"x", None, -2),
    "bpf": call(321, 0, zeros, 72),
    "perf_event_open": call(298, zeros, 0, -1, -1, 0),
    "userfaultfd": call(323, 1),
    "io_uring_setup": call(425, 1, zeros),
    "kexec_load": call(246, 0, 17, None, 0),
    "kexec_file_load": call(320, -1, -1, 0, b"", 0),
    "init_module": call(175, zeros, 16, b""),
    "finit_module": call(313, -1, b"", 0),
    "delete_module": call(176, b"no_such_module", 0x800),
    "open_by_handle_at": call(304, CURRENT, zeros, 0),
    "fanotify_init": call(300, 0, 0),
    "quotactl": call(179, 0, None, 0, None),
    "swapon": call(167, b"/nonexistent", 0),
    "acct": call(163, b"/nonexistent"),
    "settimeofday": call(164, None, None),
    "clock_settime": call(227, 0, None),
    "adjtimex": call(159, None),
    "iopl": call(172, 0),
    "ioperm": call(173, 0, 1, 0),
    "reboot": call(169, 0, 0, 0, None),
    "sethostname": call(170, b"x", 1000),
    "setdomainname": call(171, b"x", 1000),
    "syslog": call(103, 10, None, 0),
    "vhangup": call(153),
    "pidfd_getfd": call(438, -1, 0, 0),
    "kcmp": call(312, os.getpid(), os.getpid(), 0, 0, 0),
    "move_pages": call(279, 0, 0, None, None, None, 0),
    "migrate_pages": call(256, 0, 0, None, None),
    "modify_ldt": call(154, 0, zeros, 16),
    "memfd_secret": call(447, 0),
    "personality that makes what it reads executable": call(135, 0x400000),
    "a socket to the hypervisor": call(41, 40, 1, 0),
    "a socket to the kernel's ciphers": call(41, 38, 5, 0),
    "a socket of raw packets": call(41, 17, 3, 0),
    "a socket of raw IP": call(41, 2, 3, 1),
    "an XDP socket": call(41, 44, 3, 0),
    **{f"a socket of {name}": call(41, 2, kind, protocol) for name, (kind, protocol) in OTHER_PROTOCOLS.items()},
    **{f"an IPv6 socket of {name}": call(41, 10, kind, protocol) for name, (kind, protocol) in OTHER_PROTOCOLS.items()},
    "a socket of generic netlink": call(41, 16, 3, 16),
    "a socket of netfilter's netlink": call(41, 16, 3, 12),
    **{f"a pair of {name} sockets": call(53, family, 1, 0, pair) for name, family in FAMILIES_WITHOUT_PAIRS.items()},
    # For one event, so that the control takes next to nothing.
    "io_setup": call(206, 1, zeros),
    "a call of the 32-bit interface": call_of_32_bits,
    "a call of the x32 interface": call(0x40000000 | 39),
}


def outcome(act):
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        ctypes.set_errno(0)
        result = act()
        # A call without a library function returns its error as a negative number.
        os.write(writer, (errno.errorcode.get(ctypes.get_errno() or -result, "?") if result < 0 else "done").encode())
        os._exit(0)
    os.close(writer)
    said = os.read(reader, 100).decode()
    os.close(reader)
    _, status = os.waitpid(pid, 0)
    return said or f"killed by {signal.Signals(os.WTERMSIG(status)).name}"


print(json.dumps({name: outcome(act) for name, act in CALLS.items()}))
