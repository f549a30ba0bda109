# SPDX-License-Identifier: Apache-2.0
"""Frames to and from the agent: a 4-byte big-endian length and that many bytes of UTF-8 JSON."""

import _thread
import fcntl
import json
import os
import resource
import select
import socket
import struct

KERNEL_SOCKET_FD = 3
MAX_FRAME_BYTES = 64 * 1024 * 1024

_LENGTH = struct.Struct(">I")

_Encoder = json.encoder.c_make_encoder
if _Encoder is None:
    _to_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
else:
    # As that makes one for each message. What is sent has been bounded, so it holds no circles.
    _chunks = _Encoder(None, None, json.encoder.encode_basestring, None, ":", ",", False, False, True)

    def _to_json(message):
        return "".join(_chunks(message, 0))


class FrameTooLarge(Exception):
    """The agent would end the kernel for it."""


class ChannelClosed(Exception):
    """The agent is gone: nothing is left to do."""


class Channel:
    """Owned by the process that claimed it: a fork of it must call `forget` and never speaks."""

    def __init__(self, sock):
        self._socket = sock
        self._poll = select.poll()
        self._poll.register(sock.fileno(), select.POLLIN)
        self._send_lock = _thread.allocate_lock()
        self._buffer = bytearray()

    @classmethod
    def claim(cls, fd=KERNEL_SOCKET_FD):
        """Moves the socket above what user code closes by number, and out of what it executes."""
        soft_limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        high = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, max(16, min(soft_limit, 1024) - 16))
        os.close(fd)
        return cls(socket.socket(fileno=high))

    def forget(self):
        self._socket.close()

    def send(self, message, after=b""):
        """
        Blocks until the agent has taken it: a slow reader slows the cell, not the agent's heap. `after` are frames that
        go before it in the same piece.
        """
        frames = after + frame(message)
        with self._send_lock:
            self._socket.sendall(frames)

    def receive(self, timeout_ms=None):
        """The next message, or None when `timeout_ms` has passed without one."""
        while True:
            message = self._take()
            if message is not None:
                return message
            if timeout_ms is not None and not self._poll.poll(timeout_ms):
                return None
            chunk = self._socket.recv(65536)
            if not chunk:
                raise ChannelClosed
            self._buffer += chunk

    def _take(self):
        if len(self._buffer) < 4:
            return None
        (length,) = _LENGTH.unpack_from(self._buffer)
        if len(self._buffer) < 4 + length:
            return None
        message = json.loads(bytes(self._buffer[4 : 4 + length]))
        del self._buffer[: 4 + length]
        return message


def frame(message):
    body = encode(message)
    if len(body) > MAX_FRAME_BYTES:
        raise FrameTooLarge(len(body))
    return _LENGTH.pack(len(body)) + body


def encode(message):
    # Lone surrogates have no UTF-8 form; a cell's text may hold them all the same.
    return _to_json(message).encode("utf-8", "replace")
