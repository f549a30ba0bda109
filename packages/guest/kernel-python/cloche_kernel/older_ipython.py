# SPDX-License-Identifier: Apache-2.0
"""Makes IPython 8 behave as IPython 9 where the kernel relies on it."""

from types import SimpleNamespace

from IPython.core import interactiveshell

from cloche_kernel.shell_store import ShellStore


def allow_no_profile(shell_class):
    """Keeps IPython 8 from making files in the folder of a profile, which the shell does not have."""
    module = interactiveshell.__dict__
    if "PickleShareDB" in module:
        module["PickleShareDB"] = lambda path: ShellStore()
        shell_class.profile_dir = SimpleNamespace(location="/nonexistent")
