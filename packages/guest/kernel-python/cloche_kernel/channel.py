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

_Encoder = getattr(json.encoder, "c_make_encoder", None)
if _Encoder is None:
    _to_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
else:
    # `JSONEncoder.encode` builds a C encoder for each message; this one is built once. It does not check for circular
    # references, because every message is bounded before it is sent.
    _chunks = _Encoder(None, None, json.encoder.encode_basestring, None, ":", ",", False, False, True)

    def _to_json(o):
        return "".join(_chunks(o, 0))


class FrameTooLarge(Exception):
    """A message is larger than the agent accepts. The agent ends a kernel that sends such a frame."""


class ChannelClosed(Exception):
    """The agent has closed the connection, so the kernel has no more work."""


class Channel:
    """The connection to the agent. It belongs to one process: a fork must call `forget` and send nothing."""

    def __init__(self, sock):
        self._socket = sock
        self._poll = select.poll()
        self._poll.register(sock.fileno(), select.POLLIN)
        self._send_lock = _thread.allocate_lock()
        self._buffer = bytearray()

    @classmethod
    def claim(cls, fd=KERNEL_SOCKET_FD):
        """Moves the socket to a high descriptor: user code rarely closes it by number, and no program inherits it."""
        soft_limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        high = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, max(16, min(soft_limit, 1024) - 16))
        os.close(fd)
        return cls(socket.socket(fileno=high))

    def forget(self):
        """Closes this process's copy of the socket."""
        self._socket.close()

    def send(self, message, after=b""):
        """Sends the frames in `after`, then the message, in one write.

        Blocks until the agent has read enough: a slow agent slows the cell down, so no queue grows in either process.
        """
        frames = after + frame(message)
        with self._send_lock:
            self._socket.sendall(frames)

    def receive(self, timeout_ms=None):
        """Returns the next message, or None after `timeout_ms` without one. Raises `ChannelClosed` at the end."""
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
    """Returns the message with its length in front. Raises `FrameTooLarge`."""
    body = encode(message)
    if len(body) > MAX_FRAME_BYTES:
        raise FrameTooLarge(len(body))
    return _LENGTH.pack(len(body)) + body


def encode(message):
    """Returns the message as UTF-8 JSON."""
    # Text of a cell may contain lone surrogates, which have no UTF-8 form: each becomes a question mark.
    return _to_json(message).encode("utf-8", "replace")
