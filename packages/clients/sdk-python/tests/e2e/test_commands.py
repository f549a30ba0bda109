"""Commands, terminals and files."""

import gzip
import io
import tarfile
import threading
import unittest

from support import client, eventually, shared_sandbox

import cloche


class Commands(unittest.TestCase):
    def test_run_to_their_end_with_environment_input_and_user(self):
        ended = shared_sandbox().commands.run("cat; echo $FROM $(id -u) >&2; exit 3", stdin="in", env={"FROM": "env"})
        self.assertEqual((ended.stdout, ended.stderr, ended.exit_code, ended.status), ("in", "env 1000\n", 3, "exited"))
        self.assertEqual(shared_sandbox().commands.run(["id", "-u"], user="root", cwd="/").stdout, "0\n")
        self.assertEqual(shared_sandbox().commands.run("sleep 60", timeout_ms=100).status, "timed_out")

    def test_give_their_output_while_they_run_and_end_with_an_exception_of_a_callback(self):
        pieces: list[str] = []
        ended = shared_sandbox().commands.run("echo a; echo b >&2", on_stdout=pieces.append, on_stderr=pieces.append)
        self.assertEqual((sorted(pieces), ended.stdout, ended.stderr), (["a\n", "b\n"], "a\n", "b\n"))

        def stop(text: str) -> None:
            raise KeyboardInterrupt(text)

        with self.assertRaises(KeyboardInterrupt):
            shared_sandbox().commands.run("echo started; exec sleep 600", on_stdout=stop)
        last = shared_sandbox().commands.list()[-1]
        self.assertEqual(eventually(lambda: last.refresh().info.status != "running" and last.info.status), "killed")

    def test_take_input_while_they_run_and_are_followed_again_from_any_entry(self):
        command = shared_sandbox().commands.start("while read line; do echo got $line; done", stdin_open=True)
        events = command.events()
        command.send_stdin("one\n")
        first = next(events)
        self.assertEqual((first.type, first.data.data), ("log", "got one\n"))
        command.send_stdin("two\n", close=True)
        self.assertEqual([entry.data for entry in command.logs(after_seq=first.data.seq)], ["got two\n"])
        self.assertEqual(command.wait().exit_code, 0)
        page = command.list_logs(limit=1)
        self.assertEqual((page.data[0].data, page.has_more), ("got one\n", True))
        events.close()

    def test_are_killed_and_waited_for(self):
        command = shared_sandbox().commands.start("sleep 600")
        with self.assertRaises(cloche.DeadlineExceededError):
            command.wait(timeout_ms=50)
        self.assertEqual(shared_sandbox().commands.kill(command.id, "SIGTERM").id, command.id)
        self.assertEqual((command.wait(timeout_ms=60_000).status, command.info.signal), ("killed", "SIGTERM"))
        self.assertEqual(shared_sandbox().commands.get(command.id).info.status, "killed")


class Terminals(unittest.TestCase):
    def test_take_input_have_a_size_and_tell_how_the_shell_ended(self):
        with shared_sandbox().pty.open(cols=100, rows=30) as pty:
            pty.resize(90, 20)
            pty.write("stty size; exit 7\n")
            screen = b"".join(pty)
        self.assertIn(b"20 90", screen)
        self.assertEqual(pty.exit_code, 7)

    def test_are_joined_by_their_id_with_what_they_showed(self):
        with shared_sandbox().pty.open() as pty:
            pty.write("echo $((40 + 2))\n")
            seen = b""
            while b"42" not in seen:
                seen += pty.read()
            with shared_sandbox().pty.open(id=pty.id) as other:
                replayed = b""
                while b"42" not in replayed:
                    replayed += other.read()
            pty.write("exit\n")
            self.assertIsNotNone(b"".join(pty))

    def test_that_are_refused_say_why(self):
        with self.assertRaises(cloche.NotFoundError):
            shared_sandbox().pty.open(id="pty_unknown")
        with self.assertRaises(cloche.NotFoundError):
            client().sandboxes.get("sbx_none")


class Files(unittest.TestCase):
    files = property(lambda self: shared_sandbox().files)

    def test_are_written_read_listed_moved_and_removed(self):
        entry = self.files.write("d/a.txt", "hello", mode=0o600)
        self.assertEqual((entry.path, entry.size_bytes, entry.mode), ("/workspace/d/a.txt", 5, "0600"))
        self.assertEqual(self.files.read("d/a.txt", start=1, end=3), b"el")
        self.files.copy("d/a.txt", "d/b.txt")
        self.files.move("d/b.txt", "d/c.txt")
        with self.assertRaises(cloche.ConflictError):
            self.files.move("d/a.txt", "d/c.txt")
        self.files.make_directory("d/e")
        self.assertEqual([each.path[13:] for each in self.files.list("d")], ["a.txt", "c.txt", "e"])
        self.assertEqual(self.files.stat("d/e").type, "directory")
        self.files.remove("d", recursive=True)
        self.assertFalse(self.files.exists("d/a.txt"))
        with self.assertRaises(cloche.NotFoundError):
            client().sandboxes.get("sbx_none").files.exists("a")

    def test_are_replaced_only_under_their_conditions(self):
        self.files.write("cond", "1")
        with self.assertRaises(cloche.PreconditionFailedError):
            self.files.write("cond", "2", create_only=True)
        with self.files.stream("cond") as file:
            etag = file.etag
        self.files.write("cond", "22", if_match=etag)
        with self.assertRaises(cloche.PreconditionFailedError):
            self.files.write("cond", "3", if_match=etag)
        with self.assertRaises(cloche.PermissionDeniedError) as caught:
            self.files.write("/etc/x", "1")
        self.assertEqual(caught.exception.details, {"path": "/etc/x"})
        self.files.write("/etc/x", "1", user="root")

    def test_are_streamed_both_ways_from_every_kind_of_source(self):
        size = 3_000_000
        self.files.write("big", (bytes([index % 256]) * 1000 for index in range(size // 1000)))
        with self.files.stream("big") as file:
            self.assertEqual(file.size_bytes, size)
            self.assertEqual(sum(len(chunk) for chunk in file), size)
        self.files.write("from-file", io.BytesIO(b"abc"))
        self.files.write("from-function", lambda: [b"d", b"ef"])
        self.assertEqual((self.files.read("from-file"), self.files.read_text("from-function")), (b"abc", "def"))

    def test_are_packed_and_unpacked_as_trees(self):
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz") as archive:
            info = tarfile.TarInfo("in/side.txt")
            info.size = 2
            archive.addfile(info, io.BytesIO(b"ok"))
        self.files.unpack("tree", packed.getvalue())
        self.assertEqual(self.files.read_text("tree/in/side.txt"), "ok")
        with self.files.archive("tree", format="tar.gz") as stream:
            content = gzip.decompress(stream.read())
        with tarfile.open(fileobj=io.BytesIO(content)) as archive:
            self.assertTrue(any(name.endswith("in/side.txt") for name in archive.getnames()))

    def test_that_change_are_watched_until_their_directory_is_deleted(self):
        self.files.make_directory("watched/inner")
        events: list[tuple[str, str]] = []
        created = threading.Event()
        failures: list[Exception] = []

        def watch() -> None:
            try:
                for event in self.files.watch("watched", recursive=True):
                    events.append((event.type, getattr(event.data, "path", "")))
                    created.set()
            except Exception as error:  # An exception of a thread fails no test.
                failures.append(error)

        watcher = threading.Thread(target=watch)
        watcher.start()
        # A change before the watch has begun is not reported.
        numbers = iter(range(10_000))
        eventually(
            lambda: created.is_set() or (self.files.write(f"watched/inner/{next(numbers)}", "") and created.wait(0.2))
        )
        self.files.remove("watched", recursive=True)
        watcher.join(120)
        self.assertEqual((watcher.is_alive(), failures), (False, []), events)
        self.assertEqual(events[0][0], "created")
        self.assertRegex(events[0][1], "^/workspace/watched/inner/")
        self.assertEqual(events[-1][0], "complete")
