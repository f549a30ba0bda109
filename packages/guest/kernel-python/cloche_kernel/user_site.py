# SPDX-License-Identifier: Apache-2.0
"""Makes packages importable that pip installs for the user."""

import os
import site
import sys


def add_user_site():
    """Puts the user's folder of packages where Python has it: before those of all users.

    Creates the folder: Python skips it at its start if it is missing, and never looks into it again. Does nothing where
    Python has no such folder, as in a virtual environment.
    """
    if not site.ENABLE_USER_SITE:
        return
    folder = site.getusersitepackages()
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError:
        return
    if folder not in sys.path:
        shared = site.getsitepackages()
        sys.path.insert(next((index for index, path in enumerate(sys.path) if path in shared), len(sys.path)), folder)


def look_again():
    """Forgets which folders on the path were missing, as Python looks only once: they may have been made since."""
    for path, finder in list(sys.path_importer_cache.items()):
        if finder is None:
            del sys.path_importer_cache[path]
