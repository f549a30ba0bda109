"""Runs of code: plain, streamed, in contexts."""

import base64
import unittest

from support import client, eventually, shared_sandbox

import cloche


class Runs(unittest.TestCase):
    def test_return_output_values_and_errors(self):
        run = shared_sandbox().run("import sys; print('out'); print('err', file=sys.stderr); 6 * 7")
        self.assertEqual((run.stdout, run.stderr, run.text), ("out\n", "err\n", "42"))
        self.assertEqual(run.outputs[0].role, "result")
        failed = shared_sandbox().run("raise ValueError('no')")
        self.assertEqual((failed.error.name, failed.error.message), ("ValueError", "no"))
        with self.assertRaisesRegex(cloche.RunFailedError, "ValueError: no"):
            failed.raise_for_error()
        late = shared_sandbox().run("import time; time.sleep(60)", timeout_ms=200)
        self.assertEqual(late.error.name, "TimeoutError")

    def test_yield_their_events_as_they_happen(self):
        context = shared_sandbox().contexts.create()
        events = context.stream("import time\nprint('a', flush=True)\nprint('b' * open('/workspace/go').read())")
        first = next(events)
        self.assertEqual((first.type, first.data[:1]), ("stdout", "a"))
        events.close()
        with context:
            shared_sandbox().files.write("go", "1")
            types = [event.type for event in context.stream("print('\\u2028', flush=True); display(1); 1/0")]
        # The service may send one line in several pieces.
        self.assertEqual(list(dict.fromkeys(types)), ["stdout", "output", "error", "complete"])

    def test_with_callbacks_give_output_before_the_end_and_are_canceled_by_an_exception(self):
        with shared_sandbox().contexts.create() as context:
            pieces: list[str] = []
            run = context.run("print('one', flush=True); 2", on_stdout=pieces.append, on_output=lambda output: None)
            self.assertEqual(("".join(pieces), run.stdout, run.text), ("one\n", "one\n", "2"))

            def stop(text: str) -> None:
                raise KeyboardInterrupt(text)

            with self.assertRaises(KeyboardInterrupt):
                context.run("x = 1\nprint('started', flush=True)\nwhile True: pass", on_stdout=stop)
            # The next run waits for the end of the one before it.
            self.assertEqual(context.run("x").text, "1")

    def test_in_contexts_keep_variables(self):
        with shared_sandbox().contexts.create(language="typescript", cwd="/workspace") as context:
            context.run("const n: number = 20")
            self.assertEqual(context.run("n + 1").text, "21")
            self.assertEqual(shared_sandbox().run("n + 2", context=context).text, "22")
            self.assertEqual(shared_sandbox().run("n + 3", context=context.id, language="typescript").text, "23")
            self.assertIn(context.id, [each.id for each in shared_sandbox().contexts.list()])
            self.assertEqual(shared_sandbox().contexts.get(context.id).info.cwd, "/workspace")
            context.restart()
            self.assertEqual(context.run("typeof n").text, "'undefined'")
        with self.assertRaises(cloche.NotFoundError):
            shared_sandbox().contexts.get(context.id)

    def test_are_interrupted_with_their_variables_kept(self):
        with shared_sandbox().contexts.create() as context:
            events = context.stream("x = 5\nprint('started', flush=True)\nwhile True: pass")
            self.assertEqual(next(events).type, "stdout")
            context.interrupt()
            self.assertEqual([event.type for event in events][-1], "complete")
            self.assertEqual(context.run("x").text, "5")


class RichResults(unittest.TestCase):
    def test_are_images_tables_and_text_in_a_notebook(self):
        table = shared_sandbox().run("import pandas as pd; pd.DataFrame({'n': [1, 2]})")
        self.assertIn("<table", table._repr_mimebundle_()["text/html"])
        figure = shared_sandbox().run("import matplotlib.pyplot as plt; print('drawn'); plt.plot([1, 2]); plt.show()")
        png = next(output for output in figure.outputs if output.format == "png")
        self.assertEqual(png.data()[:4], b"\x89PNG")
        self.assertEqual(base64.b64decode(png._repr_mimebundle_()["image/png"])[:4], b"\x89PNG")
        html = figure._repr_html_()
        self.assertIn('<img src="data:image/png;base64,', html)
        self.assertIn("drawn", html)

    def test_show_the_traceback_of_an_error_without_markup_of_the_code(self):
        html = shared_sandbox().run("raise ValueError('<script>')")._repr_html_()
        self.assertIn("&lt;script&gt;", html)
        self.assertNotIn("<script>", html)


class Artifacts(unittest.TestCase):
    def test_are_exported_promoted_downloaded_in_parts_and_deleted(self):
        import httpx

        shared_sandbox().files.write("out/report.csv", "a,b\n1,2\n")
        artifact = shared_sandbox().artifacts.export("out/report.csv", metadata={"kind": "report"})
        self.assertEqual((artifact.name, artifact.size_bytes), ("report.csv", 8))
        with client().artifacts.download(artifact.id, start=4) as part:
            self.assertEqual((part.size_bytes, part.read()), (4, b"1,2\n"))
        url = client().artifacts.download_url(artifact.id, expires_in_ms=60_000)
        self.assertEqual(httpx.get(url.url).text, "a,b\n1,2\n")
        self.assertEqual([each.id for each in client().artifacts.list(metadata={"kind": "report"})], [artifact.id])
        self.assertIn(artifact.id, [each.id for each in shared_sandbox().artifacts.list()])
        client().artifacts.delete(artifact.id)
        with self.assertRaises(cloche.NotFoundError):
            client().artifacts.get(artifact.id)

    def test_of_runs_take_the_place_of_large_outputs(self):
        code = "import matplotlib.pyplot as plt; plt.plot([1, 2]); plt.show()"
        run = shared_sandbox().run(code, artifact_policy="promote")
        stored = next(output for output in run.outputs if output.kind == "artifact")
        self.assertEqual(stored.data(), b"")
        self.assertEqual(client().artifacts.get(stored.artifact_id).sha256, stored.sha256)
        self.assertIn(stored.artifact_id, run._repr_html_())


class Previews(unittest.TestCase):
    def test_serve_a_port_until_they_are_closed(self):
        import urllib.request

        command = shared_sandbox().commands.start(
            "cd /workspace && echo hello > index.html && python3 -m http.server 8123"
        )
        preview = shared_sandbox().previews.open(8123)

        def page() -> str | None:
            # The host of a preview need not be in the name service.
            host = preview.url.removeprefix("http://")
            port = client().url.rpartition(":")[2]
            request = urllib.request.Request(f"http://127.0.0.1:{port}/index.html", headers={"host": host})
            request.add_header("X-Cloche-Preview-Token", preview.access_token)
            try:
                return urllib.request.urlopen(request, timeout=10).read().decode()
            except OSError:
                return None

        self.assertEqual(eventually(page), "hello\n")
        self.assertIn("cloche_token=", cloche.preview_link(preview))
        self.assertEqual(client().previews.get(preview.id).port, 8123)
        self.assertIn(preview.id, [each.id for each in client().previews.list()])
        self.assertEqual([each.id for each in shared_sandbox().previews.list()], [preview.id])
        shared_sandbox().previews.close(preview.id)
        self.assertEqual(shared_sandbox().previews.list(), [])
        command.kill()
