# SPDX-License-Identifier: Apache-2.0
"""Started as `python3 …/cloche_zygote` by hostd or an agent, with one end of its control socket as descriptor 3."""

import os
import sys

# As in `cloche_kernel`, which a child of this becomes.
sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.argv = [""]

from cloche_zygote.zygote import Zygote

kernel = Zygote().serve()
# From here on this is a child, inside a sandbox, with the rights of its user.
kernel.run()
