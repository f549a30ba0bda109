# SPDX-License-Identifier: Apache-2.0
"""A loaded interpreter that is forked to become the kernels of sandboxes.

On the host it runs outside of all sandboxes (`fork_from_host`): as root, with no capability but the one to enter
namespaces, with the files of one template version, and with requests from hostd only. gVisor lets no process of the
host into a sandbox, so there each sandbox has its own zygote, which takes requests from the agent (`fork_in_sandbox`).
"""
