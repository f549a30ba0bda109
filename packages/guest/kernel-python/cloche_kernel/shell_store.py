# SPDX-License-Identifier: Apache-2.0
"""What magics like `%rehashx`, `%bookmark` and `%store` keep. IPython keeps it in files of the user's profile."""

from fnmatch import fnmatchcase


class ShellStore(dict):
    """Has the methods of IPython's store, and lives as long as the context."""

    def __delitem__(self, key):
        self.pop(key, None)

    # The stubs know that of a dict, and IPython calls this one.
    def keys(self, pattern="*"):  # pyright: ignore[reportIncompatibleMethodOverride]
        """Returns the keys that match a pattern of the shell."""
        return [key for key in self if fnmatchcase(key, pattern)]
