"""What the process of a kernel reads and writes."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from cloche.kernelspec.settings import read_settings
from cloche.kernelspec.wire import decode, encode


class Frames(unittest.TestCase):
    def test_begin_with_the_offsets_of_their_parts(self):
        frame = encode("shell", [b"{}", b"", b"buffer"])
        words = [int.from_bytes(frame[at : at + 8], "little") for at in range(0, 48, 8)]
        self.assertEqual(words, [5, 48, 53, 55, 55, 61])
        self.assertEqual(frame[48:], b"shell{}buffer")
        self.assertEqual(decode(frame), ("shell", [b"{}", b"", b"buffer"]))

    def test_with_more_offsets_than_bytes_are_refused(self):
        with self.assertRaises(ValueError):
            decode((2**40).to_bytes(8, "little") + bytes(64))


class Settings(unittest.TestCase):
    def test_come_from_the_file_of_the_command_line_unless_the_environment_has_them(self):
        with tempfile.TemporaryDirectory() as home:
            file = Path(home) / ".config/cloche/config.json"
            file.parent.mkdir(parents=True)
            file.write_text(json.dumps({"url": "http://stored:1", "apiKey": "stored"}))
            with mock.patch.dict(os.environ, {"HOME": home}, clear=True):
                self.assertEqual((read_settings().url, read_settings().api_key), ("http://stored:1", "stored"))
            with mock.patch.dict(os.environ, {"HOME": home, "CLOCHE_API_KEY": "given"}, clear=True):
                self.assertEqual((read_settings().url, read_settings().api_key), ("http://stored:1", "given"))


class Commands(unittest.TestCase):
    def test_say_that_a_service_does_not_answer(self):
        env = {**os.environ, "CLOCHE_URL": "http://127.0.0.1:1", "CLOCHE_API_KEY": "k"}
        command = [sys.executable, "-m", "cloche.kernelspec", "install"]
        done = subprocess.run(command, env=env, capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"^http://127\.0\.0\.1:1/jupyter does not answer: [^\n]+\n$")
