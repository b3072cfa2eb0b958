"""How fast many workers would be: measured where cores exist, beyond them a model, and named so.

The model takes what was measured of one worker and gives every further one a machine of its own. A worker that is not
at a server needs ``Z`` seconds a step, and the busiest server works ``D`` seconds on what one step sends it:

- asynchronous: ``steps * (Z + R(n))`` with ``n`` the mean number of workers at work. ``R`` is the time at a server
  where messages arrive at random and wait for each other: ``R = D (1 + (n - 1) R / (Z + R))``, the arrival theorem in
  Schweitzer's approximation for one queue. It is ``D`` for one worker, and ``Z + R`` is never below ``n D``;
- synchronous: every step lasts as long as the slowest worker's computation, then the server takes in one gradient of
  each worker and updates once; a worker waits for all of it.

A batch that is left over makes one worker's epoch longer than the others': steps are rounded up.

A ``Network`` is an assumption, nothing measured here: the bytes that a step pulls and pushes were counted, each machine
is given a link of so many bytes per second, and a message so many seconds on its way. A server sends and receives one
message after the other, so that its link's time is part of ``D``; four messages are on their way in a step.

Workers that were measured shared one machine: its cores, caches and memory. ``sharing`` is read from their own clocks,
not from the epoch that the model is to tell, so that what is then left is the model's own error.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

MESSAGES = 4  # one way, in a step: to pull and its answer, to push and its answer


@dataclass(frozen=True)
class Network:
    """An assumed network: ``bandwidth`` of each machine's link in bytes per second, ``latency`` in seconds one way.

    Raises ValueError for what is no network.
    """

    bandwidth: float
    latency: float = 0.0

    def __post_init__(self) -> None:
        if not (self.bandwidth > 0 and 0 <= self.latency < float("inf")):
            given = f"{self.bandwidth:g} bytes/s and {self.latency:g} s"
            raise ValueError(f"a network of {given} is none: give a bandwidth above 0 and a latency of 0 or more")

    def __str__(self) -> str:
        return f"{self.bandwidth * 8e-9:g} Gbit/s, {self.latency * 1e6:g} µs"


NO_NETWORK = Network(float("inf"))


@dataclass(frozen=True)
class Calibration:
    """What one worker's epoch told: seconds per step, and how unequal the steps were.

    ``compute`` is all that is no exchange. ``pull`` and ``push`` are the way there and back without the server's own
    work: ``receive`` per gradient, ``update`` per update. ``spread`` holds seconds of single batches, in any unit.
    ``moved`` are bytes that a step pulls and pushes in all, from and to ``servers`` that hold equal parts.
    """

    batches: int
    compute: float
    pull: float
    push: float
    receive: float
    update: float
    spread: tuple[float, ...] = ()
    moved: float = 0.0
    servers: int = 1

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
        moved=(worker["bytes_pulled"] + worker["bytes_pushed"]) / steps,
        servers=len(facts["servers"]),
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


def predicted(
    measured: Calibration, workers: int, strategy: str = "async", staleness: int = 0, network: Network = NO_NETWORK
) -> float:
    """Model: seconds of an epoch for ``workers`` on machines of their own; one without a network is as measured."""
    if workers < 1:
        raise ValueError(f"workers={workers} is not allowed: at least 1")
    steps = -(-measured.batches // workers)
    link = measured.moved / measured.servers / network.bandwidth
    away = measured.pull + measured.push + MESSAGES * network.latency + (measured.servers - 1) * link
    if strategy == "sync" or (strategy == "bounded" and staleness == 0):
        compute = measured.compute * slowest(measured.spread, workers)
        return steps * (compute + away + workers * (measured.receive + link) + measured.update)
    if strategy not in ("async", "bounded"):
        raise ValueError(f"strategy={strategy!r} has no model: one of sync, async, bounded")
    think, served = measured.compute + away, measured.receive + measured.update + link
    return steps * (think + at_server(think, served, measured.batches / steps))


def at_server(think: float, served: float, workers: float) -> float:
    """Seconds that a step spends at a server, waiting included: see above; ``workers`` is the mean at work."""
    ahead = workers * served - think
    root = math.sqrt(ahead**2 + 4 * served * think)
    # one of two forms of the same root, whichever does not subtract two numbers that are nearly equal
    return (ahead + root) / 2 if ahead >= 0 else 2 * served * think / (root - ahead)


def curve(
    measured: Calibration, workers: Sequence[int], strategy: str = "async", network: Network = NO_NETWORK
) -> list[dict[str, float | str]]:
    """Model: seconds and speed-up for each number of workers, as rows that say what they are and assume."""
    alone = predicted(measured, 1, strategy, network=network)
    assumed = "no network" if network == NO_NETWORK else str(network)
    rows: list[dict[str, float | str]] = []
    for count in workers:
        seconds = predicted(measured, count, strategy, network=network)
        row: dict[str, float | str] = {"workers": count, "seconds": seconds, "speedup": alone / seconds}
        rows.append(row | {"kind": "model", "network": assumed})
    return rows


def slope(rows: Sequence[dict[str, Any]]) -> float:
    """Least-squares slope of the speed-up over the workers, through one worker's 1; AGL reports 0.8."""
    more = np.array([float(row["workers"]) - 1 for row in rows])
    gained = np.array([float(row["speedup"]) - 1 for row in rows])
    return float((more * gained).sum() / max((more * more).sum(), 1e-30))
