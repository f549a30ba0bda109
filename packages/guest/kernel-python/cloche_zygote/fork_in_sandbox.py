# SPDX-License-Identifier: Apache-2.0
"""Forks from a zygote inside the sandbox: in gVisor, which lets no process of the host in, and for clients' templates.

SECURITY: this zygote runs as the sandbox's user, like its kernels, so taking it over gives user code no new right. The
agent makes the pipes and the socket of its children (e2e/security/own-zygote.test.ts).
"""

import os

from cloche_zygote import child, gvisor_pages


class ForkInSandbox:
    """Settings that an agent gives its zygote, and the steps of a child."""

    def __init__(self, setup):
        self._agent_folder = setup["agentPlace"]
        self._copies_by_page = setup.get("copiesByPage", False)
        # Set after the start: an interpreter that starts with it runs code from that folder.
        os.environ["HOME"] = setup["home"]

    def confine(self):
        """Prepares the memory for forks, after everything is loaded. The zygote has no rights to drop."""
        if self._copies_by_page:
            gvisor_pages.copy_by_page()

    def fork(self, fds):
        """Forks a child. `fds` is empty."""
        return os.fork()

    def enter(self, fds):
        """Starts a session. The child is in its sandbox already."""
        child.start_session()

    def connect_to_agent(self, kernel_id):
        """Returns a connection to the agent."""
        return child.connect_to_agent(self._agent_folder, kernel_id)
