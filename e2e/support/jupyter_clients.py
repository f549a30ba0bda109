"""Runs notebooks through the kernel gateway with Jupyter's own clients. `jupyter-gateway.test.ts` runs it."""

import functools
import os
import tempfile
import unittest

import nbformat
import papermill
import websocket
from jupyter_server.gateway.gateway_client import GatewayClient
from jupyter_server.gateway.managers import GatewayKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from papermill.clientwrap import PapermillNotebookClient
from papermill.engines import NBClientEngine, papermill_engines

TOKEN = os.environ["JUPYTER_GATEWAY_AUTH_TOKEN"]
# The client of jupyter_server opens its WebSocket without the token.
websocket.create_connection = functools.partial(websocket.create_connection, header=[f"Authorization: token {TOKEN}"])


class GatewayEngine(NBClientEngine):
    """Runs a notebook of papermill in a kernel of the gateway."""

    @classmethod
    def execute_managed_notebook(cls, nb_man, kernel_name, **kwargs):
        """Executes the notebook."""
        kwargs.pop("log_output", None)
        client = PapermillNotebookClient(
            nb_man, kernel_manager_class=GatewayKernelManager, kernel_name=kernel_name, timeout=120
        )
        client.execute()


papermill_engines.register("gateway", GatewayEngine)


def notebook(*cells):
    """Returns a notebook with cells of code."""
    return nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(cell) for cell in cells],
        metadata={"kernelspec": {"name": "python3", "display_name": "Python", "language": "python"}},
    )


def run(book, kernel="python3"):
    """Runs a notebook with nbclient."""
    client = NotebookClient(book, kernel_manager_class=GatewayKernelManager, kernel_name=kernel, timeout=120)
    # The manager of the gateway takes the name only from here.
    client.execute(kernel_name=kernel)
    return book


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
        texts = {output.name: output.text for output in book.cells[0].outputs}
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
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "book.ipynb")
            nbformat.write(book, path)
            done = papermill.execute_notebook(
                path, None, {"a": 41}, engine_name="gateway", progress_bar=False, kernel_name="python3"
            )
        self.assertEqual(done.cells[-1].outputs[0].data["text/plain"], "42")


if __name__ == "__main__":
    assert GatewayClient.instance().gateway_enabled
    unittest.main()
