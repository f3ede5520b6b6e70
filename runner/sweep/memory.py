"""What this process frees goes back to the kernel, so that one large line does not count for the rest of a sweep."""

from __future__ import annotations

import contextlib
import ctypes
from typing import Final

#: mallopt(3): blocks from this size on are mapped, and unmapped as soon as they are freed.
_M_MMAP_THRESHOLD: Final = -3
_LARGE_BYTES: Final = 4 * 1024 * 1024


def give_back_large_blocks() -> None:
    """Pin glibc's threshold: by itself it rises with every large block that is freed, up to 32 MB, and then up to
    twice as much stays in the heap. Where the C library has no such call, nothing happens.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)
