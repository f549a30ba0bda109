# SPDX-License-Identifier: Apache-2.0
"""Started as `python3 …/cloche_kernel` with the agent's socket as descriptor 3."""

import os
import site
import sys

# The package finds its own submodules through `__path__`, so its folder need not stay on the path. The working
# directory joins it, as in an interactive interpreter, only when nothing of ours is left to import from there.
sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.argv = [""]

from cloche_kernel.channel import Channel
from cloche_kernel.kernel import Kernel


def add_user_site():
    """Where pip installs to. Python ignores the folder if it appears only after the start."""
    folder = site.getusersitepackages()
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError:
        return
    if folder not in sys.path:
        sys.path.append(folder)


kernel = Kernel(Channel.claim())
add_user_site()
sys.path[0] = ""
kernel.run()
