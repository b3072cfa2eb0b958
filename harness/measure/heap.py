"""Large blocks outside the heap of glibc, for the memory pass: mapped when allocated, unmapped when freed."""

import ctypes
import os
from ctypes import c_size_t, c_void_p

LARGE = 64 << 10  # bytes
M_TOP_PAD, M_MMAP_THRESHOLD = -2, -3
IS_MMAPPED = 2
# What glibc's threshold grows to by itself, and what is restored where the environment set none.
LARGEST_DYNAMIC = 32 << 20


class _Info(ctypes.Structure):
    _fields_ = [
        (name, c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    ]


class MappedBlocks:
    """Until ``end``, glibc maps every block from 64 KiB on; nothing with another allocator, and before glibc 2.33.

    With the thresholds of timed calls a freed block stays resident, and whether the next one fits into it depends on
    the heap: the same call grew by 0 to 4 times its result. Free blocks of the calling thread's heap, which glibc would
    use first, are allocated here and not touched; those of other threads' heaps stay.
    """

    def __init__(self) -> None:
        self._library = _glibc()
        self._blocks: list[int] = []
        if self._library is not None:
            self._library.mallopt(M_MMAP_THRESHOLD, LARGE)
            self._library.mallopt(M_TOP_PAD, 0)
            self._fill(self._library)

    def _fill(self, library: ctypes.CDLL) -> None:
        """Allocate the free blocks of the heap, the largest first; a block that would be mapped is given back."""
        size = unused = library.mallinfo2().fordblks
        while size >= LARGE:
            block = library.malloc(size)
            if block and not _is_mapped(block):
                self._blocks.append(block)
                unused -= size
                size = min(size, unused)
            else:
                library.free(block)
                size = size * 3 // 4

    def end(self) -> None:
        """Free the blocks and set the thresholds of this process's environment, else the largest of glibc's own."""
        if self._library is None:
            return
        for block in self._blocks:
            self._library.free(block)
        self._blocks.clear()
        threshold = _from_environment("MALLOC_MMAP_THRESHOLD_", LARGEST_DYNAMIC)
        # mallopt takes an int, which it widens with its sign: -1 is the largest threshold, which glibc 2.34 refuses.
        if not self._library.mallopt(M_MMAP_THRESHOLD, threshold if threshold < 1 << 31 else -1):
            self._library.mallopt(M_MMAP_THRESHOLD, LARGEST_DYNAMIC)
        self._library.mallopt(M_TOP_PAD, _from_environment("MALLOC_TOP_PAD_", 128 << 10))


def _from_environment(name: str, default: int) -> int:
    """A threshold as glibc reads it, decimal or not; ``default`` where there is none."""
    try:
        return int(os.environ.get(name, ""), 0)
    except ValueError:
        return default


def _is_mapped(block: int) -> bool:
    """Whether a block has a mapping of its own: a bit of the size that glibc keeps before it."""
    return bool(c_size_t.from_address(block - ctypes.sizeof(c_size_t)).value & IS_MMAPPED)


def _glibc() -> ctypes.CDLL | None:
    """The C library, where this process's memory comes from its allocator and it can tell what is mapped."""
    library = ctypes.CDLL(None)
    others = ("MallocExtension_ReleaseFreeMemory", "mallctl", "mi_malloc")
    if not hasattr(library, "mallinfo2") or any(hasattr(library, name) for name in others):
        return None
    library.mallinfo2.restype = _Info
    library.malloc.restype, library.malloc.argtypes = c_void_p, [c_size_t]
    library.free.restype, library.free.argtypes = None, [c_void_p]
    return library
