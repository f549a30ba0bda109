# SPDX-License-Identifier: Apache-2.0
"""Connects the package `comm`, with which widgets talk to their views, once user code imports it."""

import sys

from cloche_kernel import import_hook


class Comms:
    """The comms of a context. The package `comm` keeps them; it is there only if the user has installed it."""

    def __init__(self, send):
        self._send = send
        if "comm" in sys.modules:
            self._connect(sys.modules["comm"])
        else:
            import_hook.after_import("comm", self._connect)

    @property
    def registry(self):
        """The package's `CommManager`, or None if the package is not installed."""
        try:
            import comm  # pyright: ignore[reportMissingImports]
        except ImportError:
            return None
        return comm.get_comm_manager()

    def list(self, target_name=None):
        """Returns the target of each open comm by its id, for a `comm_info_reply`."""
        registry = self.registry if "comm" in sys.modules else None
        comms = registry.comms if registry is not None else {}
        return {
            comm_id: {"target_name": comm.target_name}
            for comm_id, comm in list(comms.items())
            if target_name in (None, comm.target_name)
        }

    def take(self, message):
        """Passes a `comm_open`, `comm_msg` or `comm_close` of a client on."""
        kind, content = message["header"]["msg_type"], message["content"]
        registry = self.registry
        if registry is None:
            if kind == "comm_open":
                self._send("iopub", "comm_close", {"comm_id": content.get("comm_id"), "data": {}})
            return
        # These methods take a stream and identities of ZeroMQ, which they do not use.
        getattr(registry, kind)(None, None, message)

    def _connect(self, package):
        send = self._send

        class KernelComm(package.base_comm.BaseComm):
            """A comm whose messages go to Jupyter's clients."""

            def publish_msg(self, msg_type, data=None, metadata=None, buffers=None, **keys):
                """Sends a message of this comm."""
                content = {"data": {} if data is None else data, "comm_id": self.comm_id, **keys}
                send("iopub", msg_type, content, metadata, buffers)

        package.create_comm = KernelComm
