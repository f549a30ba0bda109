# SPDX-License-Identifier: Apache-2.0
"""Started as `python3 …/cloche_kernel` with the agent's socket as descriptor 3."""

import os
import sys

# The package finds its own submodules through `__path__`, so its folder need not stay on the path. The working
# directory joins it, as in an interactive interpreter, only when nothing of ours is left to import from there.
sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.argv = [""]

from cloche_kernel.channel import Channel
from cloche_kernel.kernel import Kernel
from cloche_kernel.user_site import add_user_site

channel = Channel.claim()
kernel = Kernel()
add_user_site()
sys.path[0] = ""
kernel.run(channel)
