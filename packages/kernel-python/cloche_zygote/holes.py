# SPDX-License-Identifier: Apache-2.0
"""What a fork allocates lies together.

Python takes memory for small things from pools of one size each, and fills those first that are nearly full: loading
leaves hundreds of them, in a page or two each, and a fork copies each page that it writes to.
"""

import ctypes
from array import array

_POOL_BYTES = 16 * 1024
_STEP_BYTES = 16
_LARGEST_BYTES = 512
# As much of a pool in a row is one that nobody else has used.
_PART_OF_NEW_POOL = 0.75
_MOST = 100_000

_allocate = ctypes.pythonapi.PyObject_Malloc
_allocate.restype = ctypes.c_void_p
_allocate.argtypes = (ctypes.c_size_t,)
_free = ctypes.pythonapi.PyObject_Free
_free.restype = None
_free.argtypes = (ctypes.c_void_p,)


def fill():
    """For good. What there is to fill is a hundredth of what is loaded."""
    for size in range(_STEP_BYTES, _LARGEST_BYTES + 1, _STEP_BYTES):
        for address in _first_of_new_pool(size):
            _free(address)


def _first_of_new_pool(size):
    enough = int(_POOL_BYTES / size * _PART_OF_NEW_POOL)
    # No list of numbers, each of which would take such a place itself.
    pool, addresses = None, array("Q")
    for _ in range(_MOST):
        address = _allocate(size)
        if address // _POOL_BYTES != pool:
            pool, addresses = address // _POOL_BYTES, array("Q")
        addresses.append(address)
        if len(addresses) >= enough:
            break
    return addresses
