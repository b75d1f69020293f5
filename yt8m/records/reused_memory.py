"""Memory of batches that is used again once nobody holds the batch any more.

Arrays of more than 32 MB come from the kernel each time, which first clears their pages. For frames that takes as long
as reading them.
"""

from __future__ import annotations

import contextlib
from collections import deque
from typing import Any

import numpy as np
from numpy.typing import NDArray

_ALIGNED = 64  # bytes; TensorFlow takes an array that begins at a multiple of this as it is, and copies any other
_GROWTH = 8  # an array gets this share more than it needs, so that its memory also serves somewhat larger ones


class ReusedMemory:
    """Gives arrays, some of them in the memory of earlier ones that are gone. Any thread may call it.

    Args:
      most_idle: the largest number of pieces of memory that are kept while nobody uses them.
    """

    def __init__(self, most_idle: int = 4) -> None:
        # Its operations need no lock. `take_back` must not wait for one: Python may call it at any allocation.
        self._idle = deque[NDArray[np.uint8]](maxlen=most_idle)

    def array(self, size: int) -> NDArray[np.uint8]:
        """uint8 [size] with any content, which begins at a multiple of 64 bytes."""
        return np.asarray(_Loan(self, self._memory_for(size), size))

    def take_back(self, memory: NDArray[np.uint8]) -> None:
        """Keeps the memory of an array that is gone; if there is too much, other memory is dropped."""
        self._idle.append(memory)

    def _memory_for(self, size: int) -> NDArray[np.uint8]:
        """Memory of at least so many bytes and of at most twice as many."""
        with contextlib.suppress(IndexError):  # another thread was faster
            for _ in range(len(self._idle)):
                memory = self._idle.popleft()
                if size + _ALIGNED <= len(memory) <= 2 * (size + _ALIGNED):
                    return memory
                self._idle.append(memory)
        return np.empty(size + size // _GROWTH + _ALIGNED, np.uint8)


class _Loan:
    """Memory in use. NumPy keeps this object as long as the array, or a view of it, exists."""

    def __init__(self, owner: ReusedMemory, memory: NDArray[np.uint8], size: int) -> None:
        self._owner, self._memory = owner, memory
        address = memory.ctypes.data
        self.__array_interface__: dict[str, Any] = {
            "shape": (size,),
            "typestr": "|u1",
            "data": (address + -address % _ALIGNED, False),
            "version": 3,
        }

    def __del__(self) -> None:
        self._owner.take_back(self._memory)
