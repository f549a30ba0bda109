# SPDX-License-Identifier: Apache-2.0
"""The zygote of a sandbox's own, where the runtime lets nobody in from outside: gVisor.

SECURITY: it is a process of the sandbox's user, as the kernels are that it becomes: user code that gets hold of it has
what it had before. What its children meet the agent by is made by the agent (e2e/security/own-zygote.test.ts).
"""

import os

from cloche_zygote import child, small_pages


class Within:
    def __init__(self, setup):
        self._agent_place = setup["agentPlace"]
        # Only now: what lies there is code that an interpreter runs when it starts.
        os.environ["HOME"] = setup["home"]

    def settle(self):
        """Once everything is loaded. It has the rights that its children shall have, and no others."""
        small_pages.copy_by_page()

    def fork(self, fds):
        return os.fork()

    def enter(self, fds):
        child.leave_session()

    def meet_agent(self, kernel_id):
        return child.meet_agent(self._agent_place, kernel_id)
