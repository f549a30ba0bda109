# SPDX-License-Identifier: Apache-2.0
"""Makes packages importable that pip installs for the user."""

import os
import site
import sys


def add_user_site():
    """Creates the user's folder of packages and puts it on the path: Python skips it at its start if it is missing."""
    folder = site.getusersitepackages()
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError:
        return
    if folder not in sys.path:
        sys.path.append(folder)
