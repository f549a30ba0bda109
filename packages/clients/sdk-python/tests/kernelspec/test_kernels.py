"""Kernels of each language, held to Jupyter's own tests of kernels."""

import unittest
from pathlib import Path

import jupyter_kernel_test
import support
from jupyter_client.kernelspec import KernelSpecManager


def setUpModule():
    support.install()


class InstalledKernels(unittest.TestCase):
    """The kernel specs that are installed."""

    def test_have_the_names_and_logos_of_the_gateway_but_no_key(self):
        specs = KernelSpecManager().get_all_specs()
        names = {name: specs[name]["spec"]["display_name"] for name in specs if name.startswith("cloche-")}
        self.assertEqual(names["cloche-python3"], "Python 3 (Cloche)")
        self.assertEqual(names["cloche-javascript"], "JavaScript (Cloche)")
        self.assertEqual(names["cloche-typescript"], "TypeScript (Cloche)")
        folder = Path(specs["cloche-python3"]["resource_dir"])
        self.assertEqual({each.name for each in folder.iterdir()}, {"kernel.json", "logo-svg.svg"})
        self.assertNotIn(support.KEY, (folder / "kernel.json").read_text())


# How long jupyter_kernel_test waits for a message.
jupyter_kernel_test.TIMEOUT = support.WAIT_SECONDS


def lacks(reason):
    """Returns a test that is skipped."""
    return lambda test: test.skipTest(reason)


class KernelTests(jupyter_kernel_test.KernelTests):
    """Jupyter's tests, without those of what the gateway does not serve."""

    test_pager = lacks("kernels show help as output, not in a pager")

    def flush_channels(self):
        """Waits until the kernel has done with all requests; by default, until no message comes for a moment."""
        request = self.kc.kernel_info()
        while self.kc.get_shell_msg(timeout=support.WAIT_SECONDS)["parent_header"]["msg_id"] != request:
            pass
        is_idle = False
        while not is_idle:
            message = self.kc.get_iopub_msg(timeout=support.WAIT_SECONDS)
            is_over = message["content"].get("execution_state") == "idle"
            is_idle = is_over and message["parent_header"]["msg_id"] == request


class Python(KernelTests):
    kernel_name = "cloche-python3"
    language_name = "python"
    file_extension = ".py"
    code_hello_world = "print('hello, world')"
    code_stderr = "import sys; print('test', file=sys.stderr)"
    code_generate_error = "raise ValueError('no')"
    code_execute_result = ({"code": "6 * 7", "result": "42"}, {"code": "'a' + 'b'", "result": "'ab'"})
    code_history_pattern = "6*"
    supported_history_operations = ("tail", "range", "search")
    code_inspect_sample = "print"
    completion_samples = (
        {"text": "impor", "matches": {"import"}},
        {"text": "import os; os.pathc", "matches": {"pathconf", "pathconf_names"}},
    )
    complete_code_samples = ("x = 1", "def f():\n    return 1\n\n")
    incomplete_code_samples = ("def f():", "print(")
    invalid_code_samples = ("import = 7",)
    code_clear_output = "from IPython.display import clear_output; clear_output()"
    code_display_data = (
        {"code": "from IPython.display import HTML, display; display(HTML('<b>x</b>'))", "mime": "text/html"},
    )


class ScriptTests(KernelTests):
    """Tests without those of what JavaScript and TypeScript lack."""

    completion_samples = ({"text": "JSON.pa", "matches": {"parse"}},)
    code_inspect_sample = "JSON"
    complete_code_samples = ("let x = 1", "function f() { return 1 }")
    incomplete_code_samples = ("function f() {", "f(", "`text")
    invalid_code_samples = (")", "1 +* 2")
    supported_history_operations = ("tail", "range", "search")
    test_clear_output = lacks("kernels of JavaScript and TypeScript do not serve it")


class JavaScript(ScriptTests):
    kernel_name = "cloche-javascript"
    language_name = "javascript"
    file_extension = ".js"
    code_hello_world = "console.log('hello, world')"
    code_stderr = "console.error('test')"
    code_generate_error = "throw new Error('no')"
    code_execute_result = ({"code": "6 * 7", "result": "42"},)
    code_history_pattern = "6*"
    code_display_data = ({"code": "display({ 'text/html': '<b>x</b>' })", "mime": "text/html"},)


class TypeScript(ScriptTests):
    kernel_name = "cloche-typescript"
    language_name = "typescript"
    file_extension = ".ts"
    code_hello_world = "const text: string = 'hello, world'; console.log(text)"
    code_stderr = "console.error('test')"
    code_generate_error = "throw new Error('no')"
    code_execute_result = ({"code": "const six: number = 6; six * 7", "result": "42"},)
    code_history_pattern = "const six*"
    code_display_data = ({"code": "display({ 'text/html': '<b>x</b>' as string })", "mime": "text/html"},)


# They have no kernel of their own.
del KernelTests, ScriptTests
