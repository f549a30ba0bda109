"""What is sent again, and with which key."""

import unittest

from support import RUN, SANDBOX, failing, idempotency_keys, response, sends, served, stream, then_silent

import cloche

CREATED = sends(response(201, {"sandbox": SANDBOX}))


class Retries(unittest.TestCase):
    def test_keep_the_key_over_all_attempts_of_a_call_and_make_a_new_one_for_each_call(self):
        broken, busy = sends(b""), sends(failing("unavailable", 503, "retry-after: 0\r\n"))
        with served(broken, busy, sends(failing("internal", 500)), CREATED) as (server, client):
            client.sandboxes.create()
            client.sandboxes.create()
        keys = idempotency_keys(server)
        self.assertEqual((len(keys), len(set(keys[:4])), len(set(keys))), (5, 1, 2))

    def test_end_with_what_the_catalogue_calls_final(self):
        for code, status in (("quota_exceeded", 429), ("conflict", 409), ("disk_full", 507), ("not_found", 404)):
            with served(sends(failing(code, status))) as (server, client):
                with self.assertRaises(cloche.ClocheError) as caught:
                    client.sandboxes.create()
            self.assertEqual((caught.exception.code, len(server.requests)), (code, 1))

    def test_wait_for_the_outcome_of_a_request_in_progress_however_often(self):
        waiting = sends(failing("idempotency_request_in_progress", 409, "retry-after: 0\r\n"))
        with served(*[waiting] * 9, CREATED, max_retries=1) as (server, client):
            client.sandboxes.create()
        self.assertEqual(len(server.requests), 10)

    def test_are_as_many_as_the_caller_allows(self):
        with served(sends(failing("internal", 500)), max_retries=2) as (server, client):
            with self.assertRaises(cloche.InternalError):
                client.sandboxes.create()
            self.assertEqual(len(server.requests), 3)
            with self.assertRaises(cloche.InternalError):
                client.sandboxes.create(max_retries=0)
            self.assertEqual(len(server.requests), 4)

    def test_do_not_outlast_the_time_of_the_call(self):
        with served(sends(failing("rate_limited", 429, "retry-after: 3600\r\n"))) as (server, client):
            with self.assertRaises(cloche.RateLimitedError) as caught:
                client.sandboxes.create(timeout_ms=1000)
        self.assertEqual((caught.exception.retry_after_ms, len(server.requests)), (3_600_000, 1))

    def test_send_bytes_again_but_not_pieces_that_are_used_up(self):
        entry = {"path": "/a", "name": "a", "type": "file", "sizeBytes": 1, "mode": "0644", "uid": 1, "gid": 1}
        written = sends(response(200, {"file": {**entry, "modifiedAt": "2030-01-01T00:00:00Z", "etag": "x"}}))
        answers = [CREATED, sends(failing("internal", 500)), written]
        with served(*answers) as (server, client):
            client.sandboxes.create().files.write("a", b"12345")
            self.assertEqual([request[-5:] for request in server.requests[1:]], [b"12345"] * 2)
        with served(*answers) as (server, client):
            with self.assertRaises(cloche.InternalError):
                client.sandboxes.create().files.write("a", iter([b"12345"]))
            self.assertEqual(len(server.requests), 2)

    def test_open_a_stream_but_do_not_repeat_a_run_once_it_is_open(self):
        opened = sends(stream({"type": "stdout", "data": "a"}))
        with served(CREATED, sends(failing("internal", 500)), opened) as (server, client):
            with self.assertRaises(cloche.StreamInterruptedError):
                list(client.sandboxes.create().stream("1"))
            self.assertEqual(len(server.requests), 3)

    def test_continue_a_numbered_stream_after_its_last_event(self):
        def event(seq: int) -> dict[str, object]:
            common = {"seq": seq, "id": f"evt_{seq}", "type": "sandbox.ready", "at": "2030-01-01T00:00:00Z"}
            return {**common, "orgId": "org_1", "data": {"sandbox": SANDBOX}}

        first, half = stream(event(1), event(2)), stream(event(3), b'event: sandbox.ready\ndata: {"se')
        with served(sends(first), sends(half), then_silent(stream(event(4)))) as (server, client):
            events = client.events.stream(types=["sandbox.*"])
            self.assertEqual([next(events).seq for _ in range(4)], [1, 2, 3, 4])
            events.close()
        asked = [request.split(b" ")[1].decode() for request in server.requests]
        self.assertEqual([path.partition("afterSeq=")[2] for path in asked], ["0", "2", "3"])


class RunEvents(unittest.TestCase):
    def events(self, *frames: object) -> list[str]:
        with served(CREATED, sends(stream(*frames))) as (_, client):
            return [event.type for event in client.sandboxes.create().stream("1")]

    def test_tell_an_exception_that_is_named_like_an_error_code_from_a_failure_of_the_service(self):
        error = {"type": "error", "data": {"name": "unavailable", "message": "x"}}
        self.assertEqual(self.events(error, {"type": "complete", "data": RUN}), ["error", "complete"])
        with self.assertRaises(cloche.UnavailableError):
            self.events({"type": "stdout", "data": "a"}, error)

    def test_skip_types_that_are_not_known_and_keep_line_separators_in_text(self):
        frames = [{"type": "later", "data": 1}, b'data: {"type": "stdout", "data": "\xe2\x80\xa8"}\n\n', b": ping\n\n"]
        self.assertEqual(self.events(*frames, {"type": "complete", "data": RUN}), ["stdout", "complete"])
