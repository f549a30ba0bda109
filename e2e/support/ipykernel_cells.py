"""Runs groups of cells in kernels of ipykernel, and writes what they send to a file. `ipykernel.test.ts` runs it."""

import asyncio
import json
import os
import sys
import tempfile
from subprocess import DEVNULL

from jupyter_client.manager import AsyncKernelManager

# Kernels beside each other.
KERNELS = 5
# Seconds for one cell on a busy machine.
CELL_TIMEOUT = 100


async def run_group(group, turns, folder):
    """Runs the cells of a group in a kernel of its own. Returns the messages of each cell."""
    async with turns:
        directory = os.path.join(folder, group["name"])
        os.mkdir(directory)
        manager = AsyncKernelManager(kernel_name="python3")
        environment = {**os.environ, "HOME": folder, "IPYTHONDIR": folder}
        await manager.start_kernel(cwd=directory, env=environment, stdout=DEVNULL, stderr=DEVNULL)
        client = manager.client()
        ran = []
        try:
            client.start_channels()
            await client.wait_for_ready(timeout=CELL_TIMEOUT)
            while len(ran) < len(group["cells"]):
                ran += [await run_cell(manager, client, group["cells"][len(ran)])]
        except TimeoutError:
            print(f"No answer from {group['name']}: {group['cells'][len(ran)]['code']}", file=sys.stderr)
        finally:
            client.stop_channels()
            await manager.shutdown_kernel(now=True)
        return ran


async def run_cell(manager, client, cell):
    """Runs a cell and returns its messages, the reply last."""
    messages = []
    lines = list(cell.get("input", ()))
    request = client.execute(cell["code"], allow_stdin="input" in cell, stop_on_error=False)

    async def answer():
        while True:
            message = await client.get_stdin_msg()
            messages.append(message)
            client.input(lines.pop(0) if lines else "")

    answers = asyncio.create_task(answer())
    marker, printed = cell.get("interrupt"), ""
    try:
        async with asyncio.timeout(CELL_TIMEOUT):
            while True:
                message = await client.get_iopub_msg()
                if message["parent_header"].get("msg_id") != request:
                    continue
                messages.append(message)
                content = message["content"]
                if content.get("execution_state") == "idle":
                    break
                printed += content.get("text", "")
                if marker is not None and marker in printed:
                    marker = None
                    # What the cell does after it has said so.
                    await asyncio.sleep(0.2)
                    await manager.interrupt_kernel()
            # Replies to earlier requests come first.
            while (message := await client.get_shell_msg())["parent_header"].get("msg_id") != request:
                pass
            messages.append(message)
    finally:
        answers.cancel()
    return [{"type": message["msg_type"], "content": message["content"]} for message in messages]


async def main(source, target):
    """Runs all groups of the file `source`, and writes what each kernel has sent into the folder `target`."""
    with open(source, encoding="utf-8") as file:
        groups = json.load(file)
    turns = asyncio.Semaphore(KERNELS)
    with tempfile.TemporaryDirectory(prefix="cloche-ipykernel-") as folder:

        async def run(group):
            ran = await run_group(group, turns, folder)
            result = {"folder": os.path.join(folder, group["name"]), "cells": ran}
            with open(os.path.join(target, f"{group['name']}.json"), "w", encoding="utf-8") as file:
                json.dump(result, file, default=str)

        await asyncio.gather(*map(run, groups))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
