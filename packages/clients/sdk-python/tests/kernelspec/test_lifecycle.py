"""What becomes of a kernel when something ends."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import support
from support import WAIT_SECONDS, call, eventually, kernels


def setUpModule():
    support.install()


class Lifecycle(support.KernelTest):
    def test_a_shutdown_ends_the_kernel_and_its_process(self):
        manager, _, kernel_id = self.start()
        manager.shutdown_kernel()
        self.assertFalse(manager.is_alive())
        eventually(lambda: kernel_id not in kernels())

    def test_a_restart_forgets_variables_and_keeps_files(self):
        manager, client, kernel_id = self.start()
        self.run_cell(client, "x = 1; open('kept', 'w').write('here')")
        manager.restart_kernel()
        client.wait_for_ready(timeout=WAIT_SECONDS)
        self.assertEqual(self.run_cell(client, "print('x' in globals(), open('kept').read())")[0], "False here\n")
        self.assertIn(kernel_id, kernels())

    def test_an_interrupt_ends_a_cell_and_keeps_variables(self):
        manager, client, _ = self.start()
        request = self.begin_cell(client, "x = 7; print('started'); import time; time.sleep(600)")
        manager.interrupt_kernel()
        reply, _ = self.reply_to(client, request)
        self.assertEqual(reply["ename"], "KeyboardInterrupt")
        self.assertEqual(self.run_cell(client, "print(x)")[0], "7\n")

    def test_a_signal_ends_the_kernel(self):
        manager, _, kernel_id = self.start()
        os.kill(manager.provisioner.pid, signal.SIGTERM)
        eventually(lambda: kernel_id not in kernels())
        eventually(lambda: not manager.is_alive())

    def test_a_front_end_that_was_killed_ends_the_kernel(self):
        before = kernels()
        program = (
            "from jupyter_client.manager import start_new_kernel\n"
            f"kernel = start_new_kernel(kernel_name='cloche-python3', startup_timeout={WAIT_SECONDS})\n"
            "print(kernel[0].provisioner.pid, flush=True); input()"
        )
        front_end = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        with front_end:
            process = Path(f"/proc/{int(front_end.stdout.readline())}")
            self.addCleanup(lambda: process.exists() and os.kill(int(process.name), signal.SIGKILL))
            (kernel_id,) = kernels() - before
            front_end.kill()
        eventually(lambda: kernel_id not in kernels())
        eventually(lambda: not process.exists())

    def test_a_process_that_was_killed_leaves_the_kernel_to_the_next(self):
        manager, client, kernel_id = self.start()
        self.run_cell(client, "open('kept', 'w').write('here')")
        os.kill(manager.provisioner.pid, signal.SIGKILL)
        eventually(lambda: not manager.is_alive())
        manager.restart_kernel(now=True)
        client.wait_for_ready(timeout=WAIT_SECONDS)
        self.assertEqual(self.run_cell(client, "print(open('kept').read())")[0], "here\n")
        self.assertIn(kernel_id, kernels())

    def test_a_kernel_that_has_ended_is_an_error_in_the_next_cell(self):
        manager, client, kernel_id = self.start()
        call("DELETE", f"/jupyter/api/kernels/{kernel_id}")
        _, reply = self.run_cell(client, "1")
        self.assertEqual((reply["status"], reply["ename"]), ("error", "KernelLost"))
        eventually(lambda: not manager.is_alive())

    def test_a_message_with_a_wrong_signature_is_dropped(self):
        _, client, _ = self.start()
        key, client.session.key = client.session.key, b"another"
        client.execute("x = 1")
        client.session.key = key
        self.assertEqual(self.run_cell(client, "print('x' in globals())")[0], "False\n")
