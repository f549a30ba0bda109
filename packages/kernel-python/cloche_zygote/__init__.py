# SPDX-License-Identifier: Apache-2.0
"""A loaded interpreter outside of all sandboxes, which is forked into them.

It runs as root without capabilities but the one to enter namespaces, sees the files of one template version and nothing
else of the host, and is told what to do by the host daemon alone.
"""
