"""Attacks by which a sandbox tries to take resources from the others. Runs the attack `given["attack"]`.

An attack takes as much as it can, holds it, and tries again until `given["seconds"]` are over.
"""

import ctypes
import errno
import os
import signal
import socket
import struct
import sys
import threading
import time

libc = ctypes.CDLL(None, use_errno=True)
until = time.monotonic() + given["seconds"]
internet = given["internet"]
held = []


def over():
    return time.monotonic() > until


def take(take_one, most=100_000):
    """Takes one after another until it is refused or the time is over. Returns how many it took."""
    for taken in range(most):
        try:
            held.append(take_one())
        except (OSError, MemoryError, RuntimeError):
            return taken
        if over():
            return taken
    return most


def call(function, *arguments):
    result = function(*arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def hold(take_one, most=100_000):
    taken = take(take_one, most)
    while not over():
        time.sleep(0.05)
        taken += take(take_one, most)
    print(taken)


def again(act):
    """Repeats `act` until the time is over, and prints how often."""
    times = 0
    while not over():
        try:
            act()
        except OSError:
            time.sleep(0.001)
        times += 1
    print(times)


def forked(act, times):
    """Runs `act` in several processes, each of which has descriptors of its own."""
    for _ in range(times):
        try:
            if os.fork() == 0:
                try:
                    act()
                finally:
                    os._exit(0)
        except OSError:
            break
    while not over():
        time.sleep(0.05)


def control_characters():
    again(lambda: (sys.stdout.write("\x01" * (1 << 20)), sys.stdout.flush()))


def inotify():
    hold(lambda: call(libc.inotify_init1, 0))


def inotify_watches():
    fd = call(libc.inotify_init1, 0)
    names = iter(range(1 << 30))

    def watch():
        name = f"/tmp/watched-{next(names)}"
        open(name, "w").close()
        call(libc.inotify_add_watch, fd, name.encode(), 2)

    hold(watch)


def queued_signals():
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGRTMIN})
    hold(lambda: call(libc.sigqueue, os.getpid(), signal.SIGRTMIN, 0))


def message_queues():
    names = iter(range(1 << 30))
    rt = ctypes.CDLL("librt.so.1", use_errno=True)
    hold(lambda: call(rt.mq_open, f"/m{os.getpid()}-{next(names)}".encode(), os.O_CREAT | os.O_RDWR, 0o600, None))


def terminals():
    hold(lambda: os.open("/dev/ptmx", os.O_RDWR))


def threads():
    def one():
        thread = threading.Thread(target=time.sleep, args=(given["seconds"],), daemon=True)
        thread.start()
        return thread

    hold(one)


def open_files():
    forked(lambda: hold(lambda: os.open("/dev/null", os.O_RDONLY)), 20)


def asynchronous_io():
    context = ctypes.c_ulong(0)
    hold(lambda: call(libc.syscall, 206, 128, ctypes.byref(context)))


def datagram_flows():
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    ports = iter(range(1 << 30))

    def flow():
        sender.sendto(b"x", (internet, 1024 + next(ports) % 60000))

    again(flow)


def connections():
    def connect():
        client = socket.socket()
        client.setblocking(False)
        code = client.connect_ex((internet, 7000))
        if code not in (0, errno.EINPROGRESS):
            raise OSError(code, os.strerror(code))
        return client

    hold(connect)


def gateway_connections():
    connections()


def gateway_requests():
    request = b"GET / HTTP/1.1\r\nHost: allowed.test\r\n\r\n"

    def ask():
        with socket.create_connection((internet, 80), 5) as client:
            client.sendall(request * 8)
            client.recv(65536)

    again(ask)


def questions():
    asker = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    numbers = iter(range(1 << 30))

    def ask():
        number = next(numbers)
        name = f"n{number}.slow.test"
        labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
        asker.sendto(struct.pack(">6H", number & 0xFFFF, 0x100, 1, 0, 0, 0) + labels + b"\0\0\1\0\1", (internet, 53))
        time.sleep(0.0005)

    again(ask)


def garbage_questions():
    asker = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    again(lambda: asker.sendto(os.urandom(36), (internet, 53)))


def socket_buffers():
    listener = socket.create_server(("127.0.0.1", 0), backlog=4096)

    def fill():
        client = socket.create_connection(listener.getsockname())
        served, _ = listener.accept()
        for one in (client, served):
            one.setblocking(False)
            try:
                while True:
                    one.send(bytes(1 << 20))
            except BlockingIOError:
                pass
        return client, served

    hold(fill)


def crashes():
    def crash():
        if os.fork() == 0:
            os.abort()
        os.wait()

    again(crash)


def syncs():
    def sync():
        with open("/workspace/synced", "wb") as file:
            file.write(os.urandom(4096))
            os.sync()

    again(sync)


def dirty_pages():
    data = os.urandom(1 << 20)

    def write():
        with open("/workspace/dirty", "wb", buffering=0) as file:
            for _ in range(100):
                file.write(data)
            os.fsync(file.fileno())

    again(write)


def names_that_are_not_there():
    numbers = iter(range(1 << 62))

    def look():
        try:
            os.stat(f"/workspace/{next(numbers)}")
        except FileNotFoundError:
            pass

    again(look)


def small_files():
    names = iter(range(1 << 62))
    hold(lambda: open(f"/workspace/small-{next(names)}", "w").close())


def memory():
    hold(lambda: bytearray(8 << 20), 20)


def output():
    again(lambda: print("x" * 200))


def processes():
    def fork():
        if os.fork() == 0:
            time.sleep(given["seconds"])
            os._exit(0)

    again(fork)


def processor():
    while not over():
        pass


def processors():
    forked(processor, 30)


def page_cache():
    with open("/workspace/cached", "wb") as file:
        file.write(os.urandom(64 << 20))

    def read():
        with open("/workspace/cached", "rb", buffering=0) as file:
            while file.read(1 << 20):
                pass

    again(read)


globals()[given["attack"]]()
