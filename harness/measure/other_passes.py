"""Passes apart from the timing: a want of memory in one of them costs a cell none of its samples."""

from collections.abc import Callable
from typing import Any

from backends.memory_errors import is_out_of_memory


def unless_out_of_memory(measure: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The answer of a pass; where memory does not hold it, a ``status`` that says so."""
    try:
        return measure()
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        return {"status": f"not measured, out of memory: {first}"}
