# SPDX-License-Identifier: Apache-2.0
"""A fork of the host's copies an entry for each page of memory: the fewer and larger they are, the sooner it is done."""

import ctypes
import os

from cloche_zygote.allocated import allocated

_PAGE_BYTES = 2 * 1024 * 1024
_MADV_COLLAPSE = 25


def collapse(process_folder):
    """
    Makes huge pages of what this process has allocated, where the machine has them and as far as it goes.
    `process_folder` is a descriptor of its folder in /proc, which is not mounted where the zygote lives.
    """
    libc = ctypes.CDLL(None)
    for start, end in _areas(process_folder):
        first = -(-start // _PAGE_BYTES) * _PAGE_BYTES
        for address in range(first, end - _PAGE_BYTES + 1, _PAGE_BYTES):
            libc.madvise(ctypes.c_void_p(address), ctypes.c_size_t(_PAGE_BYTES), _MADV_COLLAPSE)


def _areas(process_folder):
    try:
        with open(os.open("maps", os.O_RDONLY, dir_fd=process_folder)) as maps:
            return allocated(maps.readlines())
    except OSError:
        return []
