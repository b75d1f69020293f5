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
import errno
import mmap
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

_SETTINGS = "/sys/kernel/mm/transparent_hugepage"
_MAPS, _PAGE_MAP = "/proc/self/maps", "/proc/self/pagemap"
_COLLAPSE = 25  # MADV_COLLAPSE, which Python's mmap module does not name
_MOST_BYTES = 32 << 20  # some processors have huge pages of 512 MB, of which hardly any would be in use
_LEAST_SHARE = 0.75  # of a huge page that must be in use already: this memory grows by a third at most
# An entry of the page map: whether the page is in memory, and whether this process alone has it. Pages of zeros that
# were only read, and those that a forked process has too, would have to be copied.
_ENTRY_BYTES, _IN_USE = 8, np.uint64(1 << 63 | 1 << 56)
_READ_AT_ONCE = 512  # huge pages whose entries are read together


def size(settings: str = _SETTINGS) -> int:
    """The bytes of a huge page; 0 if the system has none, is set to give none, or moves no memory into them."""
    try:
        with open(f"{settings}/enabled") as enabled, open(f"{settings}/hpage_pmd_size") as huge:
            is_off, bytes_of_page = "[never]" in enabled.read(), int(huge.read())
        can_move = _madvise()(0, 0, _COLLAPSE) == 0
    except (AttributeError, OSError, ValueError):
        return 0
    return 0 if is_off or bytes_of_page > _MOST_BYTES or not can_move else bytes_of_page


def move_memory(is_stopped: Callable[[], bool] = lambda: False) -> int:
    """Moves the memory that is in use into huge pages, if the system has some. Other threads go on meanwhile.

    Args:
      is_stopped: is asked before each page; if it returns True, the rest stays where it is.

    Returns:
      The number of huge pages that this memory now has, those of earlier calls included.
    """
    count, bytes_of_page = 0, size()
    if not bytes_of_page:
        return 0
    madvise = _madvise()
    with contextlib.suppress(OSError):  # a sandbox without these files of Linux
        for address in addresses_in_use(bytes_of_page, is_stopped):
            if madvise(address, bytes_of_page, _COLLAPSE) == 0:
                count += 1
            elif ctypes.get_errno() in (errno.ENOMEM, errno.EBUSY):
                break  # to find room for more, the system would drop what others need
            # What is refused for another reason (it is pinned, or gone) stays as it is.
    return count


def _madvise() -> Any:
    function = ctypes.CDLL(None, use_errno=True).madvise
    function.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return function


def addresses_in_use(
    bytes_of_page: int, is_stopped: Callable[[], bool], maps: str = _MAPS, page_map: str = _PAGE_MAP
) -> Iterator[int]:
    """The address of each huge page that the memory of this process could have, if enough of it is in use."""
    pages = bytes_of_page // mmap.PAGESIZE
    with open(page_map, "rb", buffering=0) as entries:
        for numbers in _parts(_own_memory(maps), bytes_of_page):
            entries.seek(numbers.start * pages * _ENTRY_BYTES)
            words = entries.read(len(numbers) * pages * _ENTRY_BYTES)
            for index in np.flatnonzero(_shares_in_use(words, pages) >= _LEAST_SHARE):
                if is_stopped():
                    return
                yield numbers[index] * bytes_of_page
            if is_stopped():
                return


def _parts(memory: list[range], bytes_of_page: int) -> Iterator[range]:
    """The numbers of the huge pages that fit into the memory, as many as are looked at together."""
    for addresses in memory:
        first, end = -(-addresses.start // bytes_of_page), addresses.stop // bytes_of_page
        for number in range(first, end, _READ_AT_ONCE):
            yield range(number, min(number + _READ_AT_ONCE, end))


def _shares_in_use(entries: bytes, pages: int) -> np.ndarray:
    """For each huge page, the share of its small pages that are in use."""
    whole = len(entries) // (pages * _ENTRY_BYTES)
    is_in_use = np.frombuffer(entries, np.uint64, whole * pages) & _IN_USE == _IN_USE
    shares: np.ndarray = is_in_use.reshape(whole, pages).mean(1)
    return shares


def _own_memory(maps: str) -> list[range]:
    """The addresses of the memory that is read and written, is not shared, and belongs to no file."""
    ranges = []
    with open(maps, errors="replace") as lines:  # a file's name may be in any encoding
        for line in lines:
            addresses, access, _, _, inode, *name = line.split()
            if access == "rw-p" and inode == "0" and (not name or name[0] == "[heap]" or name[0].startswith("[anon")):
                first, end = addresses.split("-")
                ranges.append(range(int(first, 16), int(end, 16)))
    return ranges
