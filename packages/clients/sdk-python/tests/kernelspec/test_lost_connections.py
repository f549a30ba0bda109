"""Connections that break while a cell runs."""

import json
import os
import tempfile
from pathlib import Path

import support
from jupyter_client.kernelspec import KernelSpecManager
from support import KEY, URL, WAIT_SECONDS, WAITING_CELL, call, eventually, let_go
from tunnel import Tunnel
from websockets.sync.client import connect


def setUpModule():
    support.install()


class LostConnections(support.KernelTest):
    def setUp(self):
        self.tunnel = Tunnel(URL)
        self.addCleanup(self.tunnel.close)

    def start_through_tunnel(self):
        """Starts a kernel whose connection can be cut."""
        return self.start(env={**os.environ, "CLOCHE_URL": self.tunnel.url})

    def cut(self, kernel_id):
        """Cuts the connection, and waits until the service knows."""
        self.tunnel.cut()
        self.wait_for_connections(kernel_id, 0)

    def wait_for_connections(self, kernel_id, count):
        """Waits until a kernel has so many clients."""
        eventually(lambda: call("GET", f"/jupyter/api/kernels/{kernel_id}")["connections"] == count)

    def test_the_cell_goes_on_when_the_connection_is_back(self):
        _, client, kernel_id = self.start_through_tunnel()
        request = self.begin_cell(client, WAITING_CELL)
        self.cut(kernel_id)
        self.tunnel.mend()
        self.wait_for_connections(kernel_id, 1)
        let_go(kernel_id)
        reply, outputs = self.reply_to(client, request)
        self.assertEqual(reply["status"], "ok")
        self.assertIn("went on\n", "".join(output.get("text", "") for output in outputs))

    def test_a_reply_that_is_lost_is_an_error_of_its_cell_and_variables_stay(self):
        _, client, kernel_id = self.start_through_tunnel()
        request = self.begin_cell(client, WAITING_CELL)
        self.cut(kernel_id)
        # Another client takes what the first has missed.
        url = f"{URL.replace('http', 'ws')}/jupyter/api/kernels/{kernel_id}/channels?session_id=another&token={KEY}"
        with connect(url) as other:
            let_go(kernel_id)
            while "went on" not in str(other.recv(WAIT_SECONDS)):
                pass
            eventually(lambda: call("GET", f"/jupyter/api/kernels/{kernel_id}")["execution_state"] == "idle")
        self.tunnel.mend()
        reply, outputs = self.reply_to(client, request)
        self.assertEqual((reply["status"], reply["ename"]), ("error", "ConnectionLost"))
        self.assertIn("ConnectionLost", [output.get("ename") for output in outputs])
        self.assertEqual(self.run_cell(client, "print(os.path.exists('go'))")[0], "True\n")

    def test_a_service_that_stays_away_is_an_error_of_the_cell_and_the_next_process_takes_over(self):
        specs = KernelSpecManager()
        with tempfile.TemporaryDirectory() as folder:
            spec = specs.get_kernel_spec("cloche-python3").to_dict()
            (Path(folder) / "kernel.json").write_text(json.dumps({**spec, "argv": [*spec["argv"], "--patience", "0"]}))
            specs.install_kernel_spec(folder, "impatient", user=True)
        manager, client, kernel_id = self.start(
            kernel_name="impatient", env={**os.environ, "CLOCHE_URL": self.tunnel.url}
        )
        request = self.begin_cell(client, WAITING_CELL)
        self.cut(kernel_id)
        reply, _ = self.reply_to(client, request)
        self.assertEqual((reply["status"], reply["ename"]), ("error", "KernelLost"))
        eventually(lambda: not manager.is_alive())
        let_go(kernel_id)
        self.tunnel.mend()
        manager.restart_kernel(now=True)
        client.wait_for_ready(timeout=WAIT_SECONDS)
        self.assertEqual(self.run_cell(client, "import os; print(os.path.exists('go'))")[0], "True\n")
