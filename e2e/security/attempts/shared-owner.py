"""The control: two user namespaces, created like that of a sandbox, take all they can get, one after the other.

Both are inside a third namespace with small limits, so that they use up nothing of the host.
"""

import json
import multiprocessing
import os
import resource

CLONE_NEWUSER = 0x10000000
SMALL = 20
SMALL_BYTES = 200_000


def enter_namespace(owner):
    # The limits of the creator become limits of the whole namespace.
    resource.setrlimit(resource.RLIMIT_SIGPENDING, (SMALL, SMALL))
    resource.setrlimit(resource.RLIMIT_MSGQUEUE, (SMALL_BYTES, SMALL_BYTES))
    os.setresuid(-1, owner, -1)
    checked(libc.unshare(CLONE_NEWUSER))


def with_small_limits():
    """Enters a namespace that has every id of the host and a limit of 20 where the host has more."""
    inside, mapped = os.pipe(), os.pipe()
    parent = os.getpid()
    if os.fork() == 0:
        os.read(inside[0], 1)
        for kind in ("uid_map", "gid_map"):
            with open(f"/proc/{parent}/{kind}", "w") as file:
                file.write("0 0 65536")
        os.write(mapped[1], b"1")
        os._exit(0)
    checked(libc.unshare(CLONE_NEWUSER))
    os.write(inside[1], b"1")
    os.read(mapped[0], 1)
    os.wait()
    with open("/proc/sys/user/max_inotify_instances", "w") as file:
        file.write(str(SMALL))


def takes(connection, table, owner):
    enter_namespace(owner)
    connection.send(take(table, 10 * SMALL))
    connection.recv()


def both(table, owners):
    counts, connections, processes = [], [], []
    for owner in owners:
        ours, theirs = multiprocessing.Pipe()
        process = multiprocessing.Process(target=takes, args=(theirs, table, owner))
        process.start()
        counts.append(ours.recv())
        connections.append(ours)
        processes.append(process)
    for connection, process in zip(connections, processes, strict=True):
        connection.send(None)
        process.join()
    return counts


multiprocessing.set_start_method("fork")
with_small_limits()
tables = ["inotify_instance", "queued_signal", "posix_timer", "message_queue"]
print(json.dumps({table: {"shared": both(table, [0, 0]), "own": both(table, [1, 2])} for table in tables}))
