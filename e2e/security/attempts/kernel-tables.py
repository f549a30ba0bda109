"""Takes entries of tables of the kernel, prints how many of each it got, and holds them until its input ends."""

import ctypes
import errno
import fcntl
import os
import signal
import sys
import tempfile

libc = ctypes.CDLL(None, use_errno=True)
held = []


def checked(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def inotify_instance():
    held.append(checked(libc.inotify_init1(0)))


def queued_signal():
    number = signal.SIGRTMIN
    signal.pthread_sigmask(signal.SIG_BLOCK, [number])
    checked(libc.sigqueue(os.getpid(), number, None))


def posix_timer():
    checked(libc.timer_create(1, None, ctypes.byref(ctypes.c_void_p())))


def message_queue():
    name = f"/{os.getpid()}-{len(held)}".encode()
    held.append(checked(libc.mq_open(name, os.O_RDWR | os.O_CREAT, 0o600, None)))
    libc.mq_unlink(name)


def terminal():
    held.append(os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY))


files = []


def file_lock():
    """Locks one byte of a file. Each file has few locks, because the kernel searches all of them for each new one."""
    place = len(held) % 200
    if place == 0:
        files.append(tempfile.TemporaryFile())
    fcntl.lockf(files[-1], fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 2 * place)
    held.append(None)


TAKES = (inotify_instance, queued_signal, posix_timer, message_queue, terminal, file_lock)
TABLES = {take.__name__: take for take in TAKES}
REFUSED = (errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOSPC, errno.ENOMEM)


def take(table, most):
    for count in range(most):
        try:
            TABLES[table]()
        except OSError as error:
            if error.errno not in REFUSED:
                raise
            return count
    return most


if __name__ == "__main__":
    print(take(sys.argv[1], int(sys.argv[2])), flush=True)
    sys.stdin.read()
