# SPDX-License-Identifier: Apache-2.0
"""Where in memory a process has what it has allocated."""


def allocated(lines):
    """Start and end of the areas that may be written and are of no file; `lines` are those of its `maps` in /proc."""
    areas = []
    for line in lines:
        area, access, _, _, _, *name = line.split()
        if access.startswith("rw") and name in ([], ["[heap]"]):
            start, end = area.split("-")
            areas.append((int(start, 16), int(end, 16)))
    return areas
