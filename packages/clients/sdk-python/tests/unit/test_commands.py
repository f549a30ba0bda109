"""Commands whose caller leaves before the service has named them."""

import asyncio
import threading
import unittest
from typing import Any

from support import SANDBOX, RawServer, failing, idempotency_keys, response, sends, silent

import cloche
from cloche import AsyncCloche

COMMAND: dict[str, Any] = {
    "id": "cmd_1",
    "sandboxId": SANDBOX["id"],
    "command": "sleep 600",
    "cwd": "/workspace",
    "user": "user",
    "background": True,
    "status": "running",
    "startedAt": "2030-01-01T00:00:00Z",
}
CREATED = sends(response(201, {"sandbox": SANDBOX}))
IN_PROGRESS = sends(failing("idempotency_request_in_progress", 409, "retry-after: 0\r\n"))
STARTED = sends(response(201, {"command": COMMAND}))
KILLED = sends(response(200, {"command": {**COMMAND, "status": "killed"}}))


class Commands(unittest.IsolatedAsyncioTestCase):
    async def test_are_killed_if_their_task_is_canceled_while_the_service_starts_them(self):
        has_begun = threading.Event()

        def starting(connection):
            has_begun.set()
            silent(connection)

        server = RawServer(CREATED, starting, IN_PROGRESS, STARTED, KILLED)
        try:
            async with AsyncCloche(url=server.url, api_key="clk_test", retry_delay_ms=1) as client:
                commands = (await client.sandboxes.create()).commands
                task = asyncio.create_task(commands.run("sleep 600", on_stdout=print))
                await asyncio.to_thread(has_begun.wait)
                task.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await task
        finally:
            server.close()
        starts = [request for request in server.requests if b"/commands HTTP" in request]
        self.assertEqual((len(starts), len(set(idempotency_keys(server)[1:4]))), (3, 1))
        self.assertIn(b"/commands/cmd_1/kill HTTP", server.requests[-1])

    async def test_that_the_service_refuses_to_start_are_not_asked_for_again(self):
        server = RawServer(CREATED, sends(failing("conflict", 409)))
        try:
            async with AsyncCloche(url=server.url, api_key="clk_test", retry_delay_ms=1) as client:
                commands = (await client.sandboxes.create()).commands
                with self.assertRaises(cloche.ConflictError):
                    await commands.run("true", on_stdout=print)
        finally:
            server.close()
        self.assertEqual(len(server.requests), 2)
