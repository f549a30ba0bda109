# SPDX-License-Identifier: Apache-2.0
"""Where pip installs to for a user."""

import os
import site
import sys


def add_user_site():
    """Python ignores the folder if it appears only after the start."""
    folder = site.getusersitepackages()
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError:
        return
    if folder not in sys.path:
        sys.path.append(folder)
