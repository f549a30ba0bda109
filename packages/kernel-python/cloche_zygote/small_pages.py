# SPDX-License-Identifier: Apache-2.0
"""After a fork gVisor copies 2 MiB for the first byte that is written, but a page where code may lie."""

import ctypes
import mmap

from cloche_zygote.allocated import allocated


def copy_by_page():
    """
    Lets what this process has allocated be executed, so that a child which writes here and there copies a tenth. Whoever
    could make use of it executes what it likes in any case: kernels are there for that.
    """
    libc = ctypes.CDLL(None)
    access = mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC
    with open("/proc/self/maps") as maps:
        areas = allocated(maps.readlines())
    for start, end in areas:
        libc.mprotect(ctypes.c_void_p(start), ctypes.c_size_t(end - start), access)
