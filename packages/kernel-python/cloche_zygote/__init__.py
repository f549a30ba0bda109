# SPDX-License-Identifier: Apache-2.0
"""A loaded interpreter that is forked to become the kernels of sandboxes.

Outside of all sandboxes it runs as root without capabilities but the one to enter namespaces, sees the files of one template
version and nothing else of the host, and is told what to do by the host daemon alone (`from_outside`). In gVisor, which
lets nobody in, each sandbox has one of its own, which is told what to do by its agent (`within`).
"""
