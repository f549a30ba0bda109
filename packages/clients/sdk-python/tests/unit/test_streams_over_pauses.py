"""Streams that a pause of the sandbox ends: they go on after the wake, and wake nothing themselves."""

import unittest
from typing import Any

from support import SANDBOX, failing, response, sends, served, stream
from test_commands import COMMAND

import cloche

PAUSED = {"at": "2030-01-01T00:00:00Z", "by": "request", "memory": "kept", "place": "memory"}
ENDED_BY_PAUSE = {"type": "error", "data": {"name": "sandbox_paused", "message": "The sandbox is paused."}}
ENDED = {"type": "exit", "data": {**COMMAND, "status": "exited", "exitCode": 0}}


def _log(seq: int, data: str) -> dict[str, Any]:
    return {"type": "log", "data": {"seq": seq, "stream": "stdout", "data": data, "at": "2030-01-01T00:00:00Z"}}


def _sandbox(**changes: Any) -> Any:
    return sends(response(200, {"sandbox": {**SANDBOX, **changes}}))


# A sandbox that is about to be paused, is paused, and is resumed.
WAKE = [_sandbox(status="idle"), _sandbox(status="idle", paused=PAUSED), _sandbox(status="idle")]


def _lines(requests: list[bytes]) -> list[str]:
    return [request.split(b" HTTP", 1)[0].decode() for request in requests]


class StreamsOverPauses(unittest.TestCase):
    def test_of_a_command_go_on_after_the_last_line_when_something_has_resumed_the_sandbox(self):
        opened, again = sends(stream(_log(1, "a"), ENDED_BY_PAUSE)), sends(stream(_log(2, "b"), ENDED))
        started = sends(response(201, {"command": COMMAND}))
        with served(_sandbox(), started, opened, *WAKE, again) as (server, client):
            command = client.sandboxes.get("sbx_1").commands.start("work")
            self.assertEqual([entry.data for entry in command.logs()], ["a", "b"])
        looks = _lines(server.requests)[3:]
        self.assertIn("afterSeq=1", looks.pop())
        self.assertEqual(set(looks), {f"GET /v1/sandboxes/{SANDBOX['id']}"})

    def test_of_a_command_are_refused_if_the_sandbox_was_paused_before(self):
        started = sends(response(201, {"command": COMMAND}))
        with served(_sandbox(), started, sends(failing("sandbox_paused", 409))) as (_, client):
            command = client.sandboxes.get("sbx_1").commands.start("work")
            with self.assertRaises(cloche.SandboxPausedError):
                next(command.logs())

    def test_of_a_watch_go_on_with_the_advice_to_list_the_directory_again(self):
        created = {"type": "created", "data": {"path": "/workspace/a"}}
        opened = sends(stream(created, ENDED_BY_PAUSE))
        again = sends(stream(created, {"type": "complete", "data": {}}))
        with served(_sandbox(), opened, *WAKE, again) as (_, client):
            events = list(client.sandboxes.get("sbx_1").files.watch())
        self.assertEqual([event.type for event in events], ["created", "overflow", "created", "complete"])

    def test_of_a_watch_are_refused_if_the_sandbox_was_paused_before(self):
        with served(_sandbox(), sends(failing("sandbox_paused", 409))) as (_, client):
            with self.assertRaises(cloche.SandboxPausedError):
                next(client.sandboxes.get("sbx_1").files.watch())
