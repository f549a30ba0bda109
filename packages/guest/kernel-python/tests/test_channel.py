# SPDX-License-Identifier: Apache-2.0
"""Tests of frames and of the connection to the agent."""

import json
import os
import socket
import struct
import unittest
from unittest import mock

from cloche_kernel import channel
from cloche_kernel.channel import Channel, ChannelClosed, FrameTooLarge, encode, frame


class Frames(unittest.TestCase):
    """Results of `frame` and `encode`."""

    def test_begin_with_their_length_in_four_bytes(self):
        body = b'{"type":"ready","count":1}'
        self.assertEqual(frame({"type": "ready", "count": 1}), struct.pack(">I", len(body)) + body)

    def test_count_bytes_and_not_characters(self):
        framed = frame({"text": "é€😀"})
        self.assertEqual(struct.unpack(">I", framed[:4])[0], len(framed) - 4)
        self.assertEqual(json.loads(framed[4:]), {"text": "é€😀"})

    def test_replace_lone_surrogates(self):
        self.assertEqual(encode("a\ud800b"), b'"a?b"')

    def test_hold_control_characters_as_escapes(self):
        self.assertEqual(encode("\0\n\x7f"), b'"\\u0000\\n\x7f"')

    def test_up_to_the_limit_are_made_and_larger_ones_are_not(self):
        with mock.patch.object(channel, "MAX_FRAME_BYTES", 10):
            self.assertEqual(len(frame("x" * 8)), 14)
            with self.assertRaises(FrameTooLarge) as raised:
                frame("x" * 9)
        self.assertEqual(raised.exception.args, (11,))


class Connection(unittest.TestCase):
    """A channel with the agent's end in the test."""

    def setUp(self):
        self.agent, ours = socket.socketpair()
        self.channel = Channel(ours)
        self.addCleanup(self.agent.close)
        self.addCleanup(self.channel.forget)

    def test_receives_a_message_that_arrives_in_pieces(self):
        framed = frame({"type": "execute", "code": "1"})
        for piece in (framed[:2], framed[2:7], framed[7:]):
            self.assertIsNone(self.channel.receive(timeout_ms=0))
            self.agent.sendall(piece)
        self.assertEqual(self.channel.receive(), {"type": "execute", "code": "1"})

    def test_receives_several_messages_of_one_piece_in_order(self):
        self.agent.sendall(frame(1) + frame(2) + frame(3)[:-1])
        self.assertEqual([self.channel.receive(), self.channel.receive()], [1, 2])
        self.assertIsNone(self.channel.receive(timeout_ms=0))

    def test_raises_when_the_agent_has_closed_it(self):
        self.agent.close()
        with self.assertRaises(ChannelClosed):
            self.channel.receive()

    def test_sends_frames_kept_back_before_the_message(self):
        self.channel.send("last", after=frame("first"))
        self.assertEqual(self.agent.recv(100), frame("first") + frame("last"))

    def test_sends_nothing_of_a_message_that_is_too_large(self):
        with mock.patch.object(channel, "MAX_FRAME_BYTES", 10), self.assertRaises(FrameTooLarge):
            self.channel.send("x" * 9, after=frame("kept"))
        self.agent.setblocking(False)
        self.assertRaises(BlockingIOError, self.agent.recv, 1)

    def test_is_claimed_on_a_high_descriptor_that_programs_do_not_inherit(self):
        agent, ours = socket.socketpair()
        low = ours.detach()
        claimed = Channel.claim(low)
        self.addCleanup(agent.close)
        self.addCleanup(claimed.forget)
        high = claimed._socket.fileno()
        self.assertGreater(high, low)
        self.assertFalse(os.get_inheritable(high))
        self.assertRaises(OSError, os.fstat, low)
