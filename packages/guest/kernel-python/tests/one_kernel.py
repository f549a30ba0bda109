# SPDX-License-Identifier: Apache-2.0
"""The kernel of all tests: IPython has one shell for each process."""

from cloche_kernel.kernel import Kernel

kernel = Kernel()
