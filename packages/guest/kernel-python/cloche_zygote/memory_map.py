# SPDX-License-Identifier: Apache-2.0
"""Reads the memory map of a process."""


def anonymous_ranges(lines):
    """Returns start and end of the writable ranges without a file. `lines` is the content of `/proc/<pid>/maps`."""
    ranges = []
    for line in lines:
        addresses, access, _, _, _, *name = line.split()
        if access.startswith("rw") and name in ([], ["[heap]"]):
            start, end = addresses.split("-")
            ranges.append((int(start, 16), int(end, 16)))
    return ranges
