# SPDX-License-Identifier: Apache-2.0
"""Started as `python3 …/cloche_zygote` by hostd or an agent, with one end of its control socket as descriptor 3."""

import os
import sys

# As in `cloche_kernel`: a child becomes such a kernel.
sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.argv = [""]

from cloche_kernel.ipython_fallback import provide_ipython  # noqa: E402

provide_ipython()

from cloche_zygote.zygote import Zygote  # noqa: E402

kernel = Zygote().serve()
# Only a child gets here. It is inside a sandbox and has the rights of its user.
kernel.run()
