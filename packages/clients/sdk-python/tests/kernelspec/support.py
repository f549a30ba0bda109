"""A service, and kernels that Jupyter starts for it."""

import json
import os
import re
import subprocess
import sys
import time
import unittest
import urllib.request

from jupyter_client.manager import start_new_kernel

URL = os.environ["CLOCHE_URL"]
KEY = os.environ["CLOCHE_API_KEY"]
WAIT_SECONDS = 120
# Goes on when `let_go` is called.
WAITING_CELL = "import os, time; print('started')\nwhile not os.path.exists('go'): time.sleep(0.01)\nprint('went on')"


def install():
    """Installs the kernel specs."""
    subprocess.run([sys.executable, "-m", "cloche.kernelspec", "install"], check=True, stdout=subprocess.DEVNULL)


def eventually(condition):
    """Waits for a condition, and returns what it returned."""
    end = time.monotonic() + WAIT_SECONDS
    while not (found := condition()):
        if time.monotonic() > end:
            raise AssertionError("the condition did not come true")
        time.sleep(0.1)
    return found


def call(method, path, body=None):
    """Sends a request to the service."""
    content = {} if body is None else {"Content-Type": "application/octet-stream"}
    headers = {"Authorization": f"Bearer {KEY}", **content}
    request = urllib.request.Request(URL + path, method=method, headers=headers, data=body)
    with urllib.request.urlopen(request) as response:
        return json.loads(response.read() or "null")


def kernels():
    """Returns the ids of the kernels that the gateway has."""
    return {kernel["id"] for kernel in call("GET", "/jupyter/api/kernels")}


def let_go(kernel_id):
    """Lets `WAITING_CELL` end."""
    sandbox = re.search(r"sbx_\w+", kernel_id)[0]
    call("PUT", f"/v1/sandboxes/{sandbox}/files/content?path=go", b"")


class KernelTest(unittest.TestCase):
    """Starts kernels and runs cells."""

    def start(self, kernel_name="cloche-python3", **options):
        """Starts a kernel, and returns its manager, its client and its id in the gateway."""
        before = kernels()
        manager, client = start_new_kernel(kernel_name=kernel_name, startup_timeout=WAIT_SECONDS, **options)
        self.addCleanup(lambda: manager.has_kernel and manager.shutdown_kernel())
        self.addCleanup(client.stop_channels)
        (kernel_id,) = kernels() - before
        return manager, client, kernel_id

    def run_cell(self, client, code):
        """Runs a cell, and returns its text and its reply."""
        texts = []

        def hook(message):
            texts.append(message["content"].get("text", "") if message["msg_type"] == "stream" else "")

        reply = client.execute_interactive(code, timeout=WAIT_SECONDS, output_hook=hook, allow_stdin=False)
        return "".join(texts), reply["content"]

    def begin_cell(self, client, code):
        """Sends a cell, and waits until it has printed `started`."""
        request = client.execute(code, allow_stdin=False)
        while "started" not in client.get_iopub_msg(timeout=WAIT_SECONDS)["content"].get("text", ""):
            pass
        return request

    def reply_to(self, client, request):
        """Returns the reply to a cell, and its outputs."""
        while (reply := client.get_shell_msg(timeout=WAIT_SECONDS))["parent_header"]["msg_id"] != request:
            pass
        outputs = []
        while (message := client.get_iopub_msg(timeout=WAIT_SECONDS))["content"].get("execution_state") != "idle":
            outputs.append(message["content"])
        return reply["content"], outputs
