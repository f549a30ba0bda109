"""Runs notebooks through the kernel gateway with Jupyter's own clients. `jupyter-gateway.test.ts` runs it."""

import asyncio
import functools
import os
import tempfile
import unittest

import nbformat
import papermill
import websocket
from jupyter_core.utils import ensure_async
from jupyter_server.gateway.gateway_client import GatewayClient
from jupyter_server.gateway.managers import GatewayKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError
from papermill.clientwrap import PapermillNotebookClient
from papermill.engines import NBClientEngine, papermill_engines
from papermill.exceptions import PapermillExecutionError

TOKEN = os.environ["JUPYTER_GATEWAY_AUTH_TOKEN"]
# The client of jupyter_server opens its WebSocket without the token.
websocket.create_connection = functools.partial(websocket.create_connection, header=[f"Authorization: token {TOKEN}"])
# It asks a process of this machine whether a kernel lives, which nbclient wants to know at a timeout.
GatewayKernelManager._async_is_alive = GatewayKernelManager.is_alive
# A kernel whose sandbox has the packages of widgets.
WITH_WIDGETS = os.environ["KERNEL_WITH_WIDGETS"]
WIDGETS = (
    "import ipywidgets\nslider = ipywidgets.IntSlider(value=7)\nout = ipywidgets.Output()\nslider",
    "slider.value = 42\nwith out:\n    print('captured')",
    "out.outputs[0]['text']",
)
# Seconds for the outputs of a cell after its reply. The default of 4 drops outputs on a busy machine.
SLOW_OUTPUTS = {"iopub_timeout": 120}
ENDLESS = ("kept = 1", "while True: pass", "kept")


class GatewayEngine(NBClientEngine):
    """Runs a notebook of papermill in a kernel of the gateway."""

    @classmethod
    def execute_managed_notebook(cls, nb_man, kernel_name, **kwargs):
        """Executes the notebook."""
        options = {name: kwargs[name] for name in ("interrupt_on_timeout", "timeout_func") if name in kwargs}
        client = PapermillNotebookClient(nb_man, kernel_manager_class=GatewayKernelManager, timeout=120, **options)
        # The manager of the gateway takes the name only from here.
        client.execute(kernel_name=kernel_name)


papermill_engines.register("gateway", GatewayEngine)


def notebook(*cells):
    """Returns a notebook with cells of code."""
    return nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(cell) for cell in cells],
        metadata={"kernelspec": {"name": "python3", "display_name": "Python", "language": "python"}},
    )


def run(book, kernel="python3", **options):
    """Runs a notebook with nbclient."""
    options = {"timeout": 120, **SLOW_OUTPUTS, **options}
    NotebookClient(book, kernel_manager_class=GatewayKernelManager, **options).execute(kernel_name=kernel)
    return book


def run_papermill(book, kernel="python3", parameters=None, **options):
    """Runs a notebook with papermill. Returns what it wrote, without its own cells, and the error that stopped it."""
    options = {"engine_name": "gateway", "progress_bar": False, "kernel_name": kernel, **SLOW_OUTPUTS, **options}
    error = None
    with tempfile.TemporaryDirectory() as folder:
        path, done = os.path.join(folder, "book.ipynb"), os.path.join(folder, "done.ipynb")
        nbformat.write(book, path)
        try:
            papermill.execute_notebook(path, done, parameters, **options)
        except PapermillExecutionError as raised:
            error = raised
        result = nbformat.read(done, as_version=4)
    result.cells = [cell for cell in result.cells if cell.cell_type == "code"]
    return result, error


def only_endless_cells(cell):
    """Returns the time limit of a cell in seconds."""
    return 1 if "while True" in cell.source else 120


def outputs(book, cell):
    """Returns the outputs of a cell by their type."""
    return {output.output_type: output for output in book.cells[cell].outputs}


class Notebooks(unittest.TestCase):
    """Notebooks with text, a plot and an error."""

    def test_nbclient_gets_text_results_and_plots(self):
        """Text, a result and a plot are outputs of their cells."""
        book = run(
            notebook(
                "import sys\nprint('out')\nprint('err', file=sys.stderr)\nx = 6",
                "x * 7",
                "import matplotlib.pyplot as plt\nplt.plot([1, 2, 4])\nplt.show()",
            )
        )
        # A line can arrive in several messages.
        texts = {"stdout": "", "stderr": ""}
        for output in book.cells[0].outputs:
            texts[output.name] += output.text
        self.assertEqual(texts, {"stdout": "out\n", "stderr": "err\n"})
        self.assertEqual(outputs(book, 1)["execute_result"].data["text/plain"], "42")
        self.assertEqual([cell.execution_count for cell in book.cells], [1, 2, 3])
        self.assertIn("image/png", outputs(book, 2)["display_data"].data)
        self.assertEqual(book.metadata.language_info.name, "python")
        nbformat.validate(book)

    def test_nbclient_stops_at_an_error_and_shows_it(self):
        """An error has its traceback, and the cells after it do not run."""
        book = notebook("print('before')", "1 / 0", "print('never')")
        with self.assertRaises(CellExecutionError) as raised:
            run(book)
        self.assertEqual(raised.exception.ename, "ZeroDivisionError")
        self.assertIn("1 / 0", "\n".join(outputs(book, 1)["error"].traceback))
        self.assertEqual(book.cells[2].outputs, [])

    def test_nbclient_runs_javascript_and_typescript(self):
        """Notebooks in other languages run too."""
        for kernel in ("javascript", "typescript"):
            book = run(notebook("const x = 6; console.log('said');", "x * 7"), kernel)
            self.assertEqual(outputs(book, 0)["stream"].text, "said\n")
            self.assertEqual(outputs(book, 1)["execute_result"].data["text/plain"], "42")

    def test_papermill_passes_parameters(self):
        """Parameters replace those of the notebook."""
        book = notebook("a = 1", "a + 1")
        book.cells[0].metadata.tags = ["parameters"]
        done, error = run_papermill(book, parameters={"a": 41})
        self.assertIsNone(error)
        self.assertEqual(outputs(done, -1)["execute_result"].data["text/plain"], "42")

    def test_papermill_writes_plots_and_the_error_that_stopped_it(self):
        """What the cells before the error have shown is in the notebook."""
        plot = "import matplotlib.pyplot as plt\nplt.plot([1, 2, 4])\nplt.show()"
        done, error = run_papermill(notebook(plot, "1 / 0", "print('never')"))
        self.assertEqual(error.ename, "ZeroDivisionError")
        self.assertIn("image/png", outputs(done, 0)["display_data"].data)
        self.assertIn("1 / 0", "\n".join(outputs(done, 1)["error"].traceback))
        self.assertEqual(done.cells[2].outputs, [])


class Widgets(unittest.TestCase):
    """Widgets, whose messages pass in both directions."""

    def assert_widgets(self, book):
        """Checks that the notebook has the state of its widgets, and that the kernel has what the client captured."""
        self.assertIn("application/vnd.jupyter.widget-view+json", outputs(book, 0)["execute_result"].data)
        models = book.metadata.widgets["application/vnd.jupyter.widget-state+json"]["state"].values()
        values = [model["state"]["value"] for model in models if model["model_name"] == "IntSliderModel"]
        self.assertEqual(values, [42])
        self.assertEqual(outputs(book, 2)["execute_result"].data["text/plain"], "'captured\\n'")

    def test_nbclient_serves_widgets(self):
        """The client keeps their state, and captures outputs for them."""
        self.assert_widgets(run(notebook(*WIDGETS), WITH_WIDGETS))

    def test_papermill_serves_widgets(self):
        """So does papermill."""
        done, error = run_papermill(notebook(*WIDGETS), WITH_WIDGETS)
        self.assertIsNone(error)
        self.assert_widgets(done)


class Input(unittest.TestCase):
    """Lines of input."""

    def test_nbclient_and_papermill_give_no_input(self):
        """The requests say that the client answers no input requests, so input() fails."""
        book = notebook("input('Who? ')")
        with self.assertRaises(CellExecutionError) as raised:
            run(book)
        self.assertEqual(raised.exception.ename, "StdinNotImplementedError")
        self.assertEqual(run_papermill(book)[1].ename, "StdinNotImplementedError")

    def test_the_client_of_the_gateway_answers_input(self):
        """The client of jupyter_server gets the prompt, and the kernel gets the line."""
        self.assertEqual(asyncio.run(answer_input()), "Hello Ada\n")


async def answer_input():
    """Executes a cell that asks for a name, and returns what it prints then."""
    manager = GatewayKernelManager()
    await manager.start_kernel(kernel_name="python3")
    client = manager.client()
    try:
        await ensure_async(client.start_channels())
        await ensure_async(client.wait_for_ready(timeout=120))
        client.execute("print('Hello', input('Who? '))", allow_stdin=True)
        prompt = await ensure_async(client.get_stdin_msg(timeout=120))
        assert prompt["content"]["prompt"] == "Who? ", prompt
        client.input("Ada")
        printed = ""
        while not printed.endswith("\n"):
            message = await ensure_async(client.get_iopub_msg(timeout=120))
            if message["msg_type"] == "stream":
                printed += message["content"]["text"]
        return printed
    finally:
        client.stop_channels()
        await ensure_async(manager.shutdown_kernel(now=True))


class Timeouts(unittest.TestCase):
    """Cells that take longer than the client allows."""

    def test_nbclient_interrupts_a_cell_and_goes_on(self):
        """The cell ends with KeyboardInterrupt, and the variables are kept."""
        options = {"interrupt_on_timeout": True, "timeout_func": only_endless_cells, "allow_errors": True}
        book = run(notebook(*ENDLESS), **options)
        self.assertEqual(outputs(book, 1)["error"].ename, "KeyboardInterrupt")
        self.assertEqual(outputs(book, 2)["execute_result"].data["text/plain"], "1")

    def test_papermill_interrupts_a_cell_and_stops(self):
        """The notebook has the interrupt as an error."""
        options = {"interrupt_on_timeout": True, "timeout_func": only_endless_cells}
        done, error = run_papermill(notebook(*ENDLESS), **options)
        self.assertEqual(error.ename, "KeyboardInterrupt")
        self.assertEqual(outputs(done, 1)["error"].ename, "KeyboardInterrupt")

    def test_nbclient_stops_at_a_timeout(self):
        """Without the interrupt, nbclient says that the cell has timed out."""
        with self.assertRaises(CellTimeoutError):
            run(notebook(*ENDLESS), timeout_func=only_endless_cells)


if __name__ == "__main__":
    assert GatewayClient.instance().gateway_enabled
    unittest.main()
