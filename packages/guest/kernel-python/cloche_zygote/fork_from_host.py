# SPDX-License-Identifier: Apache-2.0
"""Forks from the zygote on the host, which is outside of all sandboxes. Each child enters one sandbox."""

import base64
import os

from cloche_zygote import child, huge_pages, syscalls

PROCESS_FOLDER_FD = 4


class ForkFromHost:
    """Settings that hostd gives a zygote for all of its kernels, and the steps that bring a child into a sandbox."""

    def __init__(self, setup):
        self._own_filter = base64.b64decode(setup["ownFilter"])
        self._own_capabilities = setup["ownCapabilities"]
        self._kernel_filter = base64.b64decode(setup["kernelFilter"])
        self._kernel_capabilities = setup["kernelCapabilities"]
        self._limits = setup["limits"]
        self._user = setup["uid"]
        self._agent_folder = setup["agentPlace"]
        self._namespace_count = setup["namespaces"]
        self._own_process = os.pidfd_open(os.getpid())

    def confine(self):
        """Drops the rights of the zygote, after everything is loaded."""
        huge_pages.collapse(PROCESS_FOLDER_FD)
        os.close(PROCESS_FOLDER_FD)
        syscalls.set_dumpable(False)
        syscalls.bound_capabilities(self._own_capabilities)
        syscalls.filter_system_calls(self._own_filter)

    def fork(self, fds):
        """Forks a child into the process namespace of the sandbox. The child enters the other ones by itself."""
        process_namespace, *_ = fds
        syscalls.set_namespace(process_namespace, syscalls.CLONE_NEWPID)
        pid = None
        try:
            pid = os.fork()
            return pid
        finally:
            if pid != 0:
                syscalls.set_namespace(self._own_process, syscalls.CLONE_NEWPID)

    def enter(self, fds):
        """Enters the cgroups and namespaces of the sandbox, and keeps only the rights of its root user. In a child."""
        _, *namespaces = fds[: self._namespace_count]
        for group in fds[self._namespace_count :]:
            # "0" means the process that writes, so no process id is involved that may have been reused.
            os.write(group, b"0")
        # SECURITY: from the first namespace on no process of the sandbox may read this one. Its memory belongs to the
        # host's user namespace, so while it is not dumpable no root of a sandbox can trace it.
        syscalls.set_dumpable(False)
        # The user namespace is the first: it gives the capabilities that the others require.
        for namespace in namespaces:
            syscalls.set_namespace(namespace)
        child.start_session()
        syscalls.join_new_keyring()
        os.setgroups([])
        os.setresgid(0, 0, 0)
        os.setresuid(0, 0, 0)
        # SECURITY: no file of the sandbox has been touched yet. From here on the child has the rights of its root user.
        syscalls.bound_capabilities(self._kernel_capabilities)
        syscalls.filter_system_calls(self._kernel_filter)

    def connect_to_agent(self, kernel_id):
        """Makes the pipes and connects to the agent as root, then becomes the user. Returns the connection."""
        for path in child.pipe_paths(self._agent_folder, kernel_id):
            os.mkfifo(path, 0o600)
            os.chown(path, self._user, self._user)
        connection = child.connect_to_agent(self._agent_folder, kernel_id)
        child.become_user(self._user, self._limits)
        return connection
