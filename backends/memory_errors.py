"""Exceptions and output that tell that memory ran out; standard library only, as the launcher reads it."""

import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

# Messages of torch, numpy, libstdc++, glibc and CUDA.
NO_MEMORY = re.compile(
    r"MemoryError|not enough memory|can(no|'?)t allocate memory|unable to allocate|bad_alloc|"
    r"(CUDA|cuda error:|device)( is)? out of memory|CUDA_ERROR_OUT_OF_MEMORY|failed to allocate",
    re.I,
)
FROM_OUTSIDE = (
    "from outside: the kernel ended no process for want of memory meanwhile. Look for what did, such as the limits of "
    "a batch job or a daemon that watches memory, and measure again"
)
VMSTAT = Path("/proc/vmstat")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an exception tells that memory ran out, by its type, its message, or the status that ranks give it."""
    told_by_message = isinstance(error, RuntimeError | OSError) and NO_MEMORY.search(str(error)) is not None
    return isinstance(error, MemoryError) or getattr(error, "status", None) == "oom" or told_by_message


def kills() -> int | None:
    """Processes that the kernel ended for want of memory since it started; ``None`` where it does not count them."""
    with suppress(OSError, ValueError, IndexError):
        lines = VMSTAT.read_text(errors="replace").splitlines()
        return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), None)
    return None


def unless_out_of_memory(measure: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The answer of a pass beside the timing; where memory does not hold it, a ``status`` that says so.

    A want of memory in such a pass costs a cell none of its samples.
    """
    try:
        return measure()
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        return {"status": f"not measured, oom: {first}"}
