"""Frames of the subprotocol `v1.kernel.websocket.jupyter.org`: the channel and parts of a message, after offsets."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import accumulate, pairwise

SUBPROTOCOL = "v1.kernel.websocket.jupyter.org"
_WORD_BYTES = 8


def encode(channel: str, parts: Sequence[bytes]) -> bytes:
    """Returns the frame of a message: header, parent header, metadata, content and buffers."""
    pieces = [channel.encode(), *parts]
    count = len(pieces) + 1
    offsets = accumulate((len(piece) for piece in pieces), initial=_WORD_BYTES * (count + 1))
    return struct.pack(f"<{count + 1}Q", count, *offsets) + b"".join(pieces)


def decode(frame: bytes) -> tuple[str, list[bytes]]:
    """Returns the channel and the parts of a message."""
    (count,) = struct.unpack_from("<Q", frame)
    if count > len(frame) // _WORD_BYTES:
        raise ValueError("the frame is shorter than its offsets")
    offsets = struct.unpack_from(f"<{count}Q", frame, _WORD_BYTES)
    channel, *parts = [frame[begin:end] for begin, end in pairwise(offsets)]
    return channel.decode(), parts
