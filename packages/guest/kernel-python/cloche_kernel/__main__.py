# SPDX-License-Identifier: Apache-2.0
"""Started as `python3 …/cloche_kernel` with the agent's socket as descriptor 3."""

import os
import sys

# The package finds its submodules through `__path__`, so its folder does not stay on the path. The working directory
# takes its place, as in an interactive interpreter, after the last import of the kernel's own code.
sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.argv = [""]

from cloche_kernel.ipython_fallback import provide_ipython  # noqa: E402

provide_ipython()

from cloche_kernel.channel import Channel  # noqa: E402
from cloche_kernel.kernel import Kernel  # noqa: E402
from cloche_kernel.user_site import add_user_site  # noqa: E402

channel = Channel.claim()
kernel = Kernel()
add_user_site()
sys.path[0] = ""
kernel.run(channel)
