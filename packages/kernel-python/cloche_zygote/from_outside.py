# SPDX-License-Identifier: Apache-2.0
"""The zygote of the host's: it lives outside of all sandboxes, and its children enter one each."""

import base64
import os

from cloche_zygote import child, huge_pages, syscalls

PROCESS_FOLDER_FD = 4


class FromOutside:
    """What is the same for all kernels of one zygote of the host's, and how they come to where they work."""

    def __init__(self, setup):
        self._own_filter = base64.b64decode(setup["ownFilter"])
        self._own_capabilities = setup["ownCapabilities"]
        self._kernel_filter = base64.b64decode(setup["kernelFilter"])
        self._kernel_capabilities = setup["kernelCapabilities"]
        self._limits = setup["limits"]
        self._user = setup["uid"]
        self._agent_place = setup["agentPlace"]
        self._namespace_count = setup["namespaces"]
        self._own_process = os.pidfd_open(os.getpid())

    def settle(self):
        """Once everything is loaded."""
        huge_pages.collapse(PROCESS_FOLDER_FD)
        os.close(PROCESS_FOLDER_FD)
        syscalls.set_dumpable(False)
        syscalls.bound_capabilities(self._own_capabilities)
        syscalls.filter_system_calls(self._own_filter)

    def fork(self, fds):
        """A child whose number is one of the sandbox; the rest of the sandbox it enters by itself."""
        of_processes, *_ = fds
        syscalls.set_namespace(of_processes, syscalls.CLONE_NEWPID)
        pid = None
        try:
            pid = os.fork()
            return pid
        finally:
            if pid != 0:
                syscalls.set_namespace(self._own_process, syscalls.CLONE_NEWPID)

    def enter(self, fds):
        """In the child: into the control groups and namespaces of the sandbox, and down to what its root may do."""
        _, *namespaces = fds[: self._namespace_count]
        for group in fds[self._namespace_count :]:
            # "0" is whoever writes it: no number that could be another's by now.
            os.write(group, b"0")
        # SECURITY: from the first namespace on nobody in the sandbox may look into this process: its memory belongs to
        # the host's user namespace, so while it is not dumpable no root of a sandbox can trace it.
        syscalls.set_dumpable(False)
        # The user namespace is the first: it gives the capabilities that the others take.
        for namespace in namespaces:
            syscalls.set_namespace(namespace)
        child.leave_session()
        syscalls.join_new_keyring()
        os.setgroups([])
        os.setresgid(0, 0, 0)
        os.setresuid(0, 0, 0)
        # SECURITY: no file of the sandbox has been touched yet; from here on this is no more than the sandbox's root.
        syscalls.bound_capabilities(self._kernel_capabilities)
        syscalls.filter_system_calls(self._kernel_filter)

    def meet_agent(self, kernel_id):
        """Makes pipes to the agent and connects to it as root, and is its user's from then on."""
        for path in child.pipe_paths(self._agent_place, kernel_id):
            os.mkfifo(path, 0o600)
            os.chown(path, self._user, self._user)
        connection = child.meet_agent(self._agent_place, kernel_id)
        child.become_user(self._user, self._limits)
        return connection
