"""Directories become archives without what their rules leave out."""

import os
import socket
import tarfile
import tempfile
import unittest
from pathlib import Path

import cloche
from cloche._core.packing import pack_directory


class Packing(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)

    def write(self, **files: str) -> None:
        for name, text in files.items():
            path = self.root / name.replace("__", "/").replace("_DOT_", ".")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def put(self, path: str, text: str = "x") -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def names(self, folder: str = "") -> list[str]:
        archive = pack_directory(self.root / folder, compress=False)
        try:
            with tarfile.open(fileobj=archive.file) as tar:
                return [name for name in tar.getnames() if not name.startswith((".gitignore", ".clocheignore"))]
        finally:
            archive.close()

    def test_keeps_bytes_modes_links_and_names_of_any_bytes(self):
        self.put("bin/tool", "#!")
        os.chmod(self.root / "bin/tool", 0o755)
        os.symlink("bin/tool", self.root / "link")
        strange = os.fsencode(self.root) + b"/\xff\n" + b"l" * 120
        Path(os.fsdecode(strange)).write_bytes(b"1")
        archive = pack_directory(self.root, compress=True)
        with tarfile.open(fileobj=archive.file, errors="surrogateescape") as tar:
            self.assertEqual(tar.getmember("bin/tool").mode, 0o755)
            self.assertEqual(tar.getmember("link").linkname, "bin/tool")
            self.assertIn(os.fsdecode(b"\xff\n" + b"l" * 120), tar.getnames())
        again = pack_directory(self.root, compress=True)
        self.assertEqual(archive.sha256, again.sha256)
        archive.close()
        again.close()

    def test_leaves_out_what_rules_of_every_folder_say(self):
        for path in (
            "a.log",
            "keep.log",
            "sub/a.log",
            "sub/b.tmp",
            "build/x",
            "sub/build/x",
            ".git/config",
            "deep/only",
        ):
            self.put(path)
        self.put(".gitignore", "*.log\n/build\n!keep.log\n")
        self.put("sub/.gitignore", "!a.log\n*.tmp\n")
        self.put(".clocheignore", "deep/\n")
        expected = ["keep.log", "sub", "sub/.gitignore", "sub/a.log", "sub/build", "sub/build/x"]
        self.assertEqual(self.names(), expected)

    def test_lets_clocheignore_include_what_gitignore_leaves_out(self):
        self.put("dist/app")
        self.put("dist/app.map")
        self.put(".gitignore", "dist/\n")
        self.put(".clocheignore", "!dist/\n*.map\n")
        self.assertEqual(self.names(), ["dist", "dist/app"])

    def test_follows_the_rules_of_the_repository_above(self):
        self.put(".git/config")
        self.put(".gitignore", "*.log\n/pkg/out\n")
        for path in ("pkg/a.log", "pkg/out/x", "pkg/a.py"):
            self.put(path)
        self.assertEqual(self.names("pkg"), ["a.py"])
        # A directory that the repository ignores has no rules of it.
        self.assertEqual(self.names("pkg/out"), ["x"])

    def test_refuses_links_that_lead_out_and_what_is_no_directory(self):
        os.symlink("../../etc/passwd", self.root / "bad")
        os.symlink("/etc", self.root / "worse")
        with self.assertRaises(cloche.PackingFailedError) as caught:
            self.names()
        self.assertRegex(str(caught.exception), '"bad" is a link that leads out.*"worse" is a link')
        with self.assertRaisesRegex(cloche.PackingFailedError, "does not exist"):
            self.names("none")

    def test_passes_over_sockets_and_pipes(self):
        os.mkfifo(self.root / "pipe")
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(self.root / "socket"))
            self.put("a")
            self.assertEqual(self.names(), ["a"])
