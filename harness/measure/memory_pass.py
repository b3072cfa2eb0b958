"""Memory of a timed call in this process and in the ranks that it has started."""

import sys
from collections.abc import Callable
from typing import Any

from harness.measure import memory


def trim() -> None:
    """Return freed blocks of this process and of its ranks to the kernel."""
    memory.trim()
    in_all_ranks("harness.measure.memory:trim")


def growth_of(call: Callable[[], Any]) -> int:
    """Largest growth of this process during a call, plus those of its ranks, bytes.

    Ranks are asked only after a call that ended well: where it failed they may wait for this process.
    """
    in_all_ranks("harness.measure.memory:mark")
    memory.mark()
    try:
        call()
    finally:
        grown: int = memory.growth()
    return grown + sum(map(int, in_all_ranks("harness.measure.memory:growth")))


def in_all_ranks(function: str) -> list[Any]:
    """Call a function in the ranks of this process's engine; nothing where it has none."""
    ranks = sys.modules.get("backends.parallel.ranks")
    answers: list[Any] = ranks.in_all_ranks(function) if ranks else []
    return answers
