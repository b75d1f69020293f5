"""Moves the memory of this process into huge pages, so that the CPU finds it faster.

A step passes over hundreds of megabytes: weights, their moments, batches. In pages of 4 kB these are a hundred
thousand entries of the page table, far more than the CPU keeps at hand (its TLB). A virtual machine pays most for each
of the others, because two tables are read for it. Linux has huge pages, of 2 MB on most machines, but as it is usually
set it gives them only where a program asks. The C library does not ask, unless `GLIBC_TUNABLES` says so before the
program starts. So a run asks for what it has in use after some steps, and Linux 6.1 or newer copies that into huge
pages at once (MADV_COLLAPSE, see madvise(2)).
"""

from __future__ import annotations

import contextlib
import ctypes
import resource
from collections.abc import Callable, Iterator

import numpy as np

_SETTINGS = "/sys/kernel/mm/transparent_hugepage"
_COLLAPSE = 25  # MADV_COLLAPSE, which Python's mmap module does not name
_MOST_BYTES = 32 << 20  # some processors have huge pages of 512 MB, of which hardly any would be in use
_LEAST_SHARE = 0.5  # of a huge page that must be in use already, so that the process does not grow
_ENTRY_BYTES = 8  # of a page in /proc/self/pagemap; its highest bit says whether the page is in memory
_PAGE_BYTES = resource.getpagesize()
_READ_AT_ONCE = 512  # huge pages whose entries are read together


def size(settings: str = _SETTINGS) -> int:
    """The bytes of a huge page; 0 if the system has none, or is set to give none."""
    try:
        with open(f"{settings}/enabled") as enabled, open(f"{settings}/hpage_pmd_size") as huge:
            is_off, bytes_of_page = "[never]" in enabled.read(), int(huge.read())
    except (OSError, ValueError):
        return 0
    return 0 if is_off or bytes_of_page > _MOST_BYTES else bytes_of_page


def move_memory(bytes_of_page: int, is_stopped: Callable[[], bool] = lambda: False) -> int:
    """Moves the memory that is in use into huge pages. Other threads go on meanwhile.

    Args:
      bytes_of_page: bytes of a huge page, as `size` returns them.
      is_stopped: is asked before each page; if it returns True, the rest stays where it is.

    Returns:
      The number of huge pages that this memory now has, those of earlier calls included.
    """
    madvise, count = ctypes.CDLL(None).madvise, 0
    madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    with contextlib.suppress(OSError):  # a sandbox without these files of Linux
        for address in _addresses_in_use(bytes_of_page):
            if is_stopped():
                break
            # What the system refuses (it is pinned, gone, or no huge page is free) stays as it is.
            count += madvise(address, bytes_of_page, _COLLAPSE) == 0
    return count


def _addresses_in_use(bytes_of_page: int) -> Iterator[int]:
    """The address of each huge page that the memory of this process could have, if enough of it is in use."""
    pages = bytes_of_page // _PAGE_BYTES
    with open("/proc/self/pagemap", "rb", buffering=0) as entries:
        for addresses in _own_memory():
            first, end = -(-addresses.start // bytes_of_page), addresses.stop // bytes_of_page
            for number in range(first, end, _READ_AT_ONCE):
                entries.seek(number * pages * _ENTRY_BYTES)
                words = entries.read(min(_READ_AT_ONCE, end - number) * pages * _ENTRY_BYTES)
                for index in np.flatnonzero(_shares_in_memory(words, pages) >= _LEAST_SHARE):
                    yield (number + int(index)) * bytes_of_page


def _shares_in_memory(entries: bytes, pages: int) -> np.ndarray:
    """For each huge page, the share of its small pages that are in memory."""
    whole = len(entries) // (pages * _ENTRY_BYTES)
    is_in_memory = np.frombuffer(entries, np.uint64, whole * pages) >> np.uint64(63)
    shares: np.ndarray = is_in_memory.reshape(whole, pages).mean(1)
    return shares


def _own_memory() -> list[range]:
    """The addresses of the memory that is read and written, and belongs to no file and to no other process."""
    ranges = []
    with open("/proc/self/maps") as maps:
        for line in maps:
            addresses, access, _, _, inode, *name = line.split()
            if access == "rw-p" and inode == "0" and (not name or name[0] == "[heap]" or name[0].startswith("[anon")):
                first, end = addresses.split("-")
                ranges.append(range(int(first, 16), int(end, 16)))
    return ranges
