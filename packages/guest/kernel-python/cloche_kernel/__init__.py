# SPDX-License-Identifier: Apache-2.0
"""The Python kernel: runs cells in IPython and speaks the kernel protocol on a private descriptor."""
