"""The part of an output that is kept."""

from __future__ import annotations

import json

from cloche._generated.operations import OUTPUT_STREAM_BYTES


class KeptText:
    """Keeps as much of a stream as the response of a command without callbacks has."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._left_bytes = OUTPUT_STREAM_BYTES
        self.cut_bytes = 0

    def push(self, text: str) -> None:
        """Adds a piece. Counts as the service does: the size as JSON, without the quotes."""
        size = len(json.dumps(text, ensure_ascii=False).encode(errors="replace")) - 2
        if size > self._left_bytes:
            self.cut_bytes += len(text.encode(errors="replace"))
            self._left_bytes = 0
            return
        self._pieces.append(text)
        self._left_bytes -= size

    @property
    def text(self) -> str:
        """What was kept."""
        return "".join(self._pieces)
