"""How fast many workers would be: measured where cores exist, beyond them a model, and named so.

The model takes what was measured of one worker and gives every further one a machine of its own:

- asynchronous: ``steps * (compute + pull + push + server)``, but never less than what the busiest server needs for the
  updates of all workers, one after the other;
- synchronous: every step lasts as long as the slowest worker's computation, then the server takes in one gradient of
  each worker and updates once; a worker waits for all of it.

A batch that is left over makes one worker's epoch longer than the others': steps are rounded up.

Workers that were measured shared one machine: its cores, caches and memory. ``sharing`` is read from their own clocks,
not from the epoch that the model is to tell, so that what is then left is the model's own error.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Calibration:
    """What one worker's epoch told: seconds per step, and how unequal the steps were.

    ``compute`` is all that is no exchange. ``pull`` and ``push`` are the way there and back without the server's own
    work: ``receive`` per gradient, ``update`` per update. ``spread`` holds seconds of single batches, in any unit.
    """

    batches: int
    compute: float
    pull: float
    push: float
    receive: float
    update: float
    spread: tuple[float, ...] = ()

    @property
    def exchange(self) -> float:
        """Seconds of a step that are not the worker's computation, when it is alone."""
        return self.pull + self.push + self.receive + self.update

    @property
    def epoch(self) -> float:
        """Seconds of an epoch of one worker: as measured."""
        return self.batches * (self.compute + self.exchange)


def calibrated(facts: dict[str, Any], epoch_seconds: float) -> Calibration:
    """Take a calibration from a one-worker run at parameter servers: its ``facts`` and the seconds of its epoch.

    A server's own time counts as its update; what one gradient costs it beyond that is in it, so ``receive`` is half.
    Raises ValueError for facts of more workers, or of none.
    """
    if len(facts["workers"]) != 1 or not facts["servers"]:
        raise ValueError(
            f"{len(facts['workers'])} workers and {len(facts['servers'])} servers give no calibration: measure "
            "backend.workers=1 with backend.strategy=sync, async or bounded"
        )
    worker, steps = facts["workers"][0], int(facts["steps"])
    busiest = max(server["seconds"] / max(1, server["updates_in_all"]) for server in facts["servers"])
    exchange = (worker["pull"] + worker["push"]) / steps
    server = min(busiest, exchange)
    way = exchange - server
    return Calibration(
        batches=steps,
        compute=max(0.0, epoch_seconds / steps - exchange),
        pull=way / 2,
        push=way / 2,
        receive=server / 2,
        update=server / 2,
        spread=tuple(worker["spread"]),
    )


def sharing(alone: dict[str, Any], facts: dict[str, Any]) -> tuple[float, float]:
    """How many times as long workers on one machine take as one alone: over a target's computation, over an exchange.

    Both are ``facts`` of runs on the same targets; waiting for others counts as neither.
    """

    def spent(held: dict[str, Any]) -> tuple[float, float]:
        workers = held["workers"]
        targets, steps = (sum(worker[name] for worker in workers) for name in ("targets", "steps"))
        exchange = sum(worker["pull"] + worker["push"] for worker in workers)
        return sum(worker["compute"] for worker in workers) / max(targets, 1), exchange / max(steps, 1)

    (compute, exchange), (compute_alone, exchange_alone) = spent(facts), spent(alone)
    return compute / max(compute_alone, 1e-30), exchange / max(exchange_alone, 1e-30)


def shared(measured: Calibration, factors: tuple[float, float]) -> Calibration:
    """The calibration of a worker whose computation and exchanges take ``factors`` times as long."""
    compute, exchange = factors
    ways = {name: getattr(measured, name) * exchange for name in ("pull", "push", "receive", "update")}
    return replace(measured, compute=measured.compute * compute, **ways)


def slowest(spread: Sequence[float], workers: int) -> float:
    """Expected largest of ``workers`` draws from measured seconds, over their mean: at least 1."""
    if not len(spread):
        return 1.0
    held = np.sort(np.asarray(spread, dtype=np.float64))
    share = np.arange(len(held) + 1) / len(held)
    return float((held * np.diff(share**workers)).sum() / held.mean())


def predicted(measured: Calibration, workers: int, strategy: str = "async", staleness: int = 0) -> float:
    """Model: seconds of an epoch for ``workers`` on machines of their own; one worker is what was measured."""
    if workers < 1:
        raise ValueError(f"workers={workers} is not allowed: at least 1")
    steps = -(-measured.batches // workers)
    served = measured.receive + measured.update
    if strategy == "sync" or (strategy == "bounded" and staleness == 0):
        compute = measured.compute * slowest(measured.spread, workers)
        taken = workers * measured.receive + measured.update
        return steps * (compute + measured.pull + measured.push + taken)
    if strategy not in ("async", "bounded"):
        raise ValueError(f"strategy={strategy!r} has no model: one of sync, async, bounded")
    return max(steps * (measured.compute + measured.exchange), measured.batches * served)


def curve(measured: Calibration, workers: Sequence[int], strategy: str = "async") -> list[dict[str, float | str]]:
    """Model: seconds and speed-up for each number of workers, as rows that say what they are."""
    alone = predicted(measured, 1, strategy)
    rows: list[dict[str, float | str]] = []
    for count in workers:
        seconds = predicted(measured, count, strategy)
        rows.append({"workers": count, "seconds": seconds, "speedup": alone / seconds, "kind": "model"})
    return rows


def slope(rows: Sequence[dict[str, Any]]) -> float:
    """Least-squares slope of the speed-up over the workers, through one worker's 1; AGL reports 0.8."""
    more = np.array([float(row["workers"]) - 1 for row in rows])
    gained = np.array([float(row["speedup"]) - 1 for row in rows])
    return float((more * gained).sum() / max((more * more).sum(), 1e-30))
