"""Answers that no service of ours gives: half, wrong, late or none."""

import asyncio
import gc
import socket
import threading
import unittest
import warnings

from support import RUN, SANDBOX, RawServer, response, sends, served, silent, stream, then_silent

import cloche
from cloche import AsyncCloche, Cloche

CREATED = sends(response(201, {"sandbox": SANDBOX}))
HALF_HEAD = b"HTTP/1.1 200 OK\r\ncontent-ty"
HALF_BODY = b'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{"sandbox'


class Answers(unittest.TestCase):
    def failure(self, data: bytes) -> cloche.ClocheError:
        with served(sends(data), max_retries=1) as (_, client), self.assertRaises(cloche.ClocheError) as caught:
            client.sandboxes.create(timeout_ms=60_000)
        return caught.exception

    def test_that_are_not_of_the_service_are_unexpected_and_say_from_where(self):
        for body in (b"<html>", b"", b"[]", b"null", b'{"sandbox": 1}', b"[" * 100_000, b'{"sandbox": {"id": 7}}'):
            error = self.failure(response(200, body))
            self.assertIsInstance(error, cloche.UnexpectedResponseError, body[:20])
        for body in (b"<html>", b'{"error": "no"}', b'{"error": {"code": 1, "message": 2}}'):
            error = self.failure(response(404, body))
            self.assertEqual((error.code, error.status), ("unexpected_response", 404))
        self.assertRegex(str(error), "http://127.0.0.1:.* answered 404")

    def test_that_name_the_wrong_field_do_not_become_models(self):
        error = self.failure(response(201, {"sandbox": {**SANDBOX, "metadata": []}}))
        self.assertIn("Sandbox.metadata is not an object", str(error))

    def test_with_a_code_of_a_newer_service_have_the_class_of_their_status(self):
        body = {"error": {"code": "teapot", "message": "x", "requestId": "r"}}
        self.assertIsInstance(self.failure(response(418, body)), cloche.RequestError)
        self.assertIsInstance(self.failure(response(501, body)), cloche.ServiceError)

    def test_with_fields_and_values_of_a_newer_service_become_models(self):
        newer = {**SANDBOX, "status": "hibernating", "mood": "good"}
        with served(sends(response(201, {"sandbox": newer}))) as (_, client):
            self.assertEqual(client.sandboxes.create().info.status, "hibernating")

    def test_that_redirect_are_not_followed(self):
        error = self.failure(response(302, b"", "location: http://192.0.2.1/\r\n"))
        self.assertEqual((error.code, error.status), ("unexpected_response", 302))

    def test_that_break_off_are_unreachable_and_keep_the_key(self):
        for data in (b"", HALF_HEAD, HALF_BODY, b"\x00\xff garbage\r\n\r\n"):
            error = self.failure(data)
            self.assertIsInstance(error, cloche.UnreachableError)
            self.assertIsInstance(error, ConnectionError)
            self.assertTrue(error.idempotency_key)

    def test_that_do_not_come_end_with_the_time_of_the_call(self):
        for answer in (silent, then_silent(HALF_HEAD), then_silent(HALF_BODY)):
            with served(answer) as (_, client), self.assertRaises(cloche.DeadlineExceededError) as caught:
                client.sandboxes.create(timeout_ms=100)
            self.assertIsInstance(caught.exception, TimeoutError)

    def test_in_pieces_without_end_stop_at_the_time_of_the_call(self):
        def trickle(connection: socket.socket) -> None:
            connection.sendall(HALF_BODY[:-9].replace(b"100", b"9999999"))
            while True:
                connection.sendall(b" ")
                threading.Event().wait(0.01)

        with served(trickle) as (_, client), self.assertRaises(cloche.DeadlineExceededError):
            client.sandboxes.create(timeout_ms=200)


class Streams(unittest.TestCase):
    def failure(self, data: bytes) -> cloche.ClocheError:
        with (
            served(CREATED, sends(data), max_retries=0) as (_, client),
            self.assertRaises(cloche.ClocheError) as caught,
        ):
            list(client.sandboxes.create().stream("1"))
        return caught.exception

    def test_that_break_off_are_interrupted(self):
        for data in (stream(), stream(b"data: {"), stream({"type": "stdout", "data": "a"})):
            self.assertIsInstance(self.failure(data), cloche.StreamInterruptedError)
        chunked = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\nff\r\nda"
        self.assertIsInstance(self.failure(chunked), cloche.StreamInterruptedError)

    def test_of_something_else_are_unexpected(self):
        for data in (stream(b"data: nonsense\n\n"), stream(b"data: [1]\n\n"), response(200, RUN)):
            self.assertEqual(self.failure(data).code, "unexpected_response")
        self.assertEqual(self.failure(stream({"type": "complete", "data": 1})).code, "unexpected_response")

    def test_that_fall_silent_end_with_the_time_of_the_run(self):
        answer = then_silent(stream({"type": "stdout", "data": "a"}))
        with served(CREATED, answer, timeout_ms=50) as (_, client):
            events = client.sandboxes.create().stream("1", timeout_ms=100)
            self.assertEqual(next(events).data, "a")
            with self.assertRaises(cloche.DeadlineExceededError):
                next(events)

    def test_of_bytes_that_break_off_are_interrupted(self):
        file = b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf"
        with served(CREATED, sends(file)) as (_, client), self.assertRaises(cloche.StreamInterruptedError):
            client.sandboxes.create().files.read("a")


class Terminals(unittest.TestCase):
    def failure(self, *answers: object, **options: object) -> cloche.ClocheError:
        with served(CREATED, *answers) as (_, client), self.assertRaises(cloche.ClocheError) as caught:
            client.sandboxes.create().pty.open(**options)
        return caught.exception

    def test_that_do_not_open_say_why(self):
        error = b'{"error": {"code": "unavailable", "message": "x", "requestId": "r"}}'
        self.assertIsInstance(self.failure(sends(response(503, error))), cloche.UnavailableError)
        self.assertEqual(self.failure(sends(response(200, b"hi"))).code, "unexpected_response")
        self.assertIsInstance(self.failure(sends(b"")), cloche.UnreachableError)
        self.assertIsInstance(self.failure(silent, timeout_ms=100), cloche.DeadlineExceededError)


class Connections(unittest.TestCase):
    def test_are_closed_after_every_kind_of_failure(self):
        answers = [
            sends(HALF_BODY),
            then_silent(stream({"type": "stdout", "data": "a"})),
            sends(response(200, b"<html>")),
        ]
        for answer in answers:
            server = RawServer(CREATED, answer)
            client = Cloche(url=server.url, api_key="k", timeout_ms=50, max_retries=0)
            sandbox = client.sandboxes.create()
            with self.assertRaises(cloche.ClocheError):
                list(sandbox.stream("1", timeout_ms=50))
            self.assertEqual(client._http._transport._pool.connections, [])
            server.close()

    def test_of_the_asynchronous_client_are_closed_when_its_task_is_canceled(self):
        server = RawServer(CREATED, then_silent(stream({"type": "stdout", "data": "a"})))

        async def run() -> None:
            async with AsyncCloche(url=server.url, api_key="k") as client:
                sandbox = await client.sandboxes.create()
                started = asyncio.Event()
                task = asyncio.create_task(sandbox.run("1", on_stdout=lambda text: started.set()))
                await started.wait()
                task.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await task
                self.assertEqual(client._http._transport._pool.connections, [])

        with warnings.catch_warnings():
            warnings.simplefilter("error")
            asyncio.run(run())
            gc.collect()
        server.close()
