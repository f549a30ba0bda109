"""Reads an operation on a Jupyter kernel from each line of JSON, and prints how many milliseconds it took.

The time is measured here, so that the messages between the benchmark and this process do not count against Jupyter.
"""

import json
import subprocess
import sys
import time

from jupyter_client.manager import KernelManager

kernels = {}


def started(command):
    """Measures the time from the start of the kernel's process to its first result."""
    begin = time.perf_counter()
    manager = KernelManager()
    manager.start_kernel(stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    client = manager.blocking_client()
    client.start_channels()
    client.wait_for_ready(timeout=60)
    execute(client, command["code"])
    elapsed = time.perf_counter() - begin
    kernels[command["name"]] = (manager, client)
    return elapsed


def execute(client, code):
    """Executes code as a front end does: until all outputs are read and the kernel is idle."""
    count = 0

    def count_output(message):
        nonlocal count
        count += len(message["content"].get("text", ""))

    client.execute_interactive(code, store_history=True, allow_stdin=False, timeout=120, output_hook=count_output)
    return count


def executed(command):
    _, client = kernels[command["name"]]
    begin = time.perf_counter()
    execute(client, command["code"])
    return time.perf_counter() - begin


def stopped(command):
    manager, client = kernels.pop(command["name"])
    begin = time.perf_counter()
    client.stop_channels()
    manager.shutdown_kernel(now=True)
    return time.perf_counter() - begin


ACTS = {"start": started, "execute": executed, "stop": stopped}

for line in sys.stdin:
    command = json.loads(line)
    print(json.dumps({"ms": ACTS[command["act"]](command) * 1000}), flush=True)
