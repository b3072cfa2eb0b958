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


def asked_for(backend: Mapping[str, Any]) -> dict[str, int]:
    """How many ranks and workers the options of a backend ask for, where no facts tell how many there were.

    Workers without a strategy are loader processes, which share the cell's threads.
    """
    counts = {"backend.ranks": backend.get("ranks")}
    if backend.get("strategy", "local") != "local":
        counts["backend.workers"] = backend.get("workers")
    return {option: count for option, count in counts.items() if isinstance(count, int)}


def oversubscribed(threads: int, counts: Mapping[str, int], cores: float) -> dict[str, float]:
    """What has to be shared, by threads, or by ranks and workers as ``crowds`` counts them; empty where nothing has.

    That is the cores, for ranks the cell's threads where these are fewer: each rank has a thread at least, and takes a
    core that the engines beside it do not get. Workers add cores on purpose, as in a measurement of speed-ups.
    """
    shared = min(cores, threads)
    if counts.get("backend.ranks", 1) > shared:
        return {"oversubscribed": shared}
    return {"oversubscribed": cores} if max(threads, counts.get("backend.workers", 1)) > cores else {}
