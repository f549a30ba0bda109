"""Reads every readable file, name and link of some folders. Prints where it found each pattern."""

import os
import re

patterns = {name: re.compile(pattern.encode()) for name, pattern in given["patterns"].items()}
# Reading these files waits for events, or returns memory.
SKIPPED = {"kmsg", "kcore", "mem", "pagemap", "trace_pipe"}
MOST_BYTES = 1 << 20
# The sandbox's own control group, which the agent keeps open to move kernels into it.
own = re.compile(rb"(/sys/fs/cgroup/[\w,-]+/cloche-\w+/)?" + given["own"].encode())
found = {name: set() for name in patterns}


def read(path):
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return b""
    try:
        pieces, size = [], 0
        while size < MOST_BYTES and (piece := os.read(file, 1 << 16)):
            pieces.append(piece)
            size += len(piece)
        return b"".join(pieces)
    except OSError:
        return b""
    finally:
        os.close(file)


def link(path):
    try:
        return os.fsencode(os.readlink(path))
    except OSError:
        return b""


files = 0
for top in given["folders"]:
    for folder, folders, names in os.walk(top):
        # The folders of threads repeat what the folder of their process shows.
        folders[:] = [name for name in folders if name != "task"]
        for name in folders + names:
            path = os.path.join(folder, name)
            shown = name.encode() + b"\n" + link(path)
            if name in names and name not in SKIPPED:
                files += 1
                shown += b"\n" + read(path)
            for which, pattern in patterns.items():
                if pattern.search(own.sub(b"", shown)):
                    found[which].add(name)
print(json.dumps({"files": files, "found": {name: sorted(where) for name, where in found.items()}}))
