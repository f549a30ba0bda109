"""Workspace runs, templates and their builds."""

import io
import os
import tarfile
import tempfile
import unittest
from pathlib import Path

from support import client

import cloche


class WorkspaceRuns(unittest.TestCase):
    def directory(self) -> Path:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        return Path(folder.name)

    def test_pack_a_directory_run_a_command_and_keep_artifacts(self):
        root = self.directory()
        (root / "data.txt").write_text("one two three")
        (root / "ignored.log").write_text("x")
        (root / ".clocheignore").write_text("*.log\n")
        events: list[str] = []
        run = client().workspace_runs.run(
            root,
            command="ls; wc -w < data.txt | tee count.txt; echo err >&2",
            artifacts=["*.txt"],
            env={"A": "b"},
            on_event=lambda event: events.append(event.type),
        )
        self.assertEqual((run.info.status, run.info.exit_code), ("succeeded", 0))
        output = run.output()
        self.assertEqual((output.stdout, output.stderr), ("data.txt\n3\n", "err\n"))
        self.assertEqual(sorted(each.name for each in run.artifacts()), ["count.txt", "data.txt"])
        self.assertLessEqual({"state", "stdout", "stderr", "artifact"}, set(events))

    def test_that_fail_do_not_raise_and_are_found_again_by_their_key(self):
        root = self.directory()
        first = client().workspace_runs.run(root, command="exit 3", idempotency_key="python-job")
        self.assertEqual((first.info.status, first.info.exit_code), ("failed", 3))
        again = client().workspace_runs.run(root, command="exit 3", idempotency_key="python-job")
        self.assertEqual(again.id, first.id)

    def test_are_canceled_when_the_caller_is_interrupted(self):
        created: list[cloche.WorkspaceRun] = []

        def stop(event: object) -> None:
            if getattr(event, "type", "") == "stdout":
                raise KeyboardInterrupt

        with self.assertRaises(KeyboardInterrupt):
            client().workspace_runs.run(
                self.directory(), command="echo started; sleep 600", on_event=stop, on_created=created.append
            )
        self.assertEqual(created[0].wait(timeout_ms=60_000).info.status, "canceled")

    def test_take_archives_that_a_program_packed_itself(self):
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as archive:
            info = tarfile.TarInfo("a.txt")
            info.size = 2
            archive.addfile(info, io.BytesIO(b"hi"))
        run = client().workspace_runs.create(command="cat a.txt", metadata={"of": "python"})
        packed.seek(0)
        self.assertEqual(run.upload_archive(packed, format="tar").info.archive.size_bytes, len(packed.getvalue()))
        run.start()
        self.assertEqual([event.data for event in run.events() if event.type == "stdout"], ["hi"])
        self.assertTrue(run.is_finished)
        self.assertIn(run.id, [each.id for each in client().workspace_runs.list(metadata={"of": "python"})])
        with self.assertRaises(cloche.ConflictError):
            client().workspace_runs.get(run.id).start()

    def test_take_archives_by_a_signed_url_when_they_are_large(self):
        from cloche._core.packing import pack_directory

        root = self.directory()
        (root / "a.txt").write_text("by url")
        archive = pack_directory(root, compress=True)
        run = client().workspace_runs.create(command="cat a.txt")
        run._transfer(archive.file, archive.format, archive.size_bytes, archive.sha256, None)
        archive.close()
        self.assertEqual(run.start().wait().output().stdout, "by url")
        self.assertTrue(os.path.exists(root))


class Templates(unittest.TestCase):
    def test_are_built_followed_used_and_deleted(self):
        made = client().templates.create(
            slug="python-sdk",
            from_="python-node",
            env={"MADE_BY": "python"},
            setup=[{"run": "echo built > /opt/built"}],
        )
        lines: list[str] = []
        for event in client().templates.follow_build(made.template.slug, made.build.id):
            if event.type == "log":
                lines.append(event.data.data)
            else:
                self.assertEqual(event.data.status, "succeeded", lines)
        self.assertEqual(client().templates.wait_for_build(made.build).status, "succeeded")
        self.assertTrue(client().templates.build_logs("python-sdk", made.build.id, limit=1).data)
        self.assertEqual([each.id for each in client().templates.builds("python-sdk")], [made.build.id])
        with client().sandboxes.create(template="python-sdk") as sandbox:
            self.assertEqual(sandbox.commands.run("cat /opt/built; echo $MADE_BY").stdout, "built\npython\n")
        version = client().templates.versions("python-sdk")[0]
        self.assertEqual(client().templates.update("python-sdk", default_version_id=version.id).slug, "python-sdk")
        canceled = client().templates.build("python-sdk", from_="python-node", setup=[{"run": "sleep 600"}])
        client().templates.cancel_build("python-sdk", canceled.id)
        self.assertEqual(client().templates.wait_for_build(canceled).status, "canceled")
        client().templates.delete("python-sdk")
        with self.assertRaises(cloche.NotFoundError):
            client().templates.get("python-sdk")
