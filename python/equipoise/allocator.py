"""Keeps freed memory in the process. By default the C library gives each large tensor back to the system when it is
freed, and fetches and clears fresh pages for the next: on a CPU that is a good part of the time of the linear layers.
"""

import ctypes

M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4  # parameters of glibc's mallopt


def keep_freed_memory() -> bool:
    """Call it before the first tensor. Returns whether the C library knows how to; if not, only time is lost."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and bool(mallopt(M_MMAP_MAX, 0) and mallopt(M_TRIM_THRESHOLD, -1))
