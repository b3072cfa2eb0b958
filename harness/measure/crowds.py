"""Processes of one cell that share the cores: an engine's ranks and training workers, as its facts list them."""

from collections.abc import Mapping
from typing import Any


def crowds(facts: Mapping[str, Any]) -> dict[str, int]:
    """How many ranks and workers an engine ran, by the option that sets them.

    Facts of another form under these names are an engine's own, and say nothing about processes.
    """
    ranks = facts.get("ranks")
    listed = {"backend.workers": facts.get("workers")}
    if isinstance(ranks, Mapping):
        listed["backend.ranks"] = ranks.get("edges")
    return {option: len(each) for option, each in listed.items() if isinstance(each, list | tuple)}


def oversubscribed(threads: int, processes: int, cores: float) -> dict[str, float]:
    """The cores, or the cell's threads if these are fewer, where more threads or processes than that have to share.

    Each rank and worker has a thread at least: more of them than ``threads`` use more cores than the cell is given.
    """
    shared = min(cores, threads)
    return {"oversubscribed": shared} if max(threads, processes) > shared else {}
