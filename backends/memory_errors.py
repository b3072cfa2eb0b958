"""Exceptions and output that tell that memory ran out; standard library only, as the launcher reads it."""

import re

# Messages of torch, numpy, libstdc++, glibc and CUDA.
NO_MEMORY = re.compile(
    r"MemoryError|not enough memory|can(no|'?)t allocate memory|unable to allocate|bad_alloc|"
    r"(CUDA|cuda error:|device)( is)? out of memory|CUDA_ERROR_OUT_OF_MEMORY|failed to allocate",
    re.I,
)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an exception tells that memory ran out, by its type or by its message."""
    told_by_message = isinstance(error, RuntimeError | OSError) and NO_MEMORY.search(str(error)) is not None
    return isinstance(error, MemoryError) or told_by_message
