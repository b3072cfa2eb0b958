"""Performance model of training by many workers at parameter servers, calibrated by a measured run of one worker.

The report of ``+suite=agl_speedup`` shows its rows; a record of ``workers=1`` at parameter servers calibrates it.

The model gives every worker a machine of its own. ``Z`` is the time of a step that a worker spends away from the
servers, ``D`` the time that the busiest server works on one step's messages:

- asynchronous: an epoch takes ``steps * (Z + R(n))``, n the mean number of active workers. ``R`` is the residence time
  at a server with random arrivals, ``R = D (1 + (n - 1) R / (Z + R))``: the arrival theorem in Schweitzer's
  approximation for one queue. It is ``D`` for one worker, and ``Z + R`` is never below ``n D``;
- synchronous: a step lasts as long as the slowest worker's computation, then the server receives one gradient of each
  worker and updates once, while all workers wait.

Steps are rounded up: a remaining batch makes one worker's epoch longer than the others'.

A ``ClusterNetwork`` is an assumption, not a measurement: the bytes that a step pulls and pushes were counted, the
bandwidth of each machine's link and the latency of a message are assumed. A server sends and receives one message after
the other, so its link's time is part of ``D``; a step has four messages.

Measured workers shared one machine: its cores, caches and memory. ``sharing_factors`` come from the workers' own clocks
and not from the epoch that the model predicts, so that the remaining difference is the error of the model.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

import numpy as np

from backends.parallel.network import NO_NETWORK, ClusterNetwork

Record = Mapping[str, Any]
MESSAGES = 4  # of a step: the pull and its answer, the push and its answer
WORKERS = (1, *range(10, 101, 10))


@dataclass(frozen=True)
class Calibration:
    """Seconds per step of one worker's epoch, and the spread of its batches.

    ``pull`` and ``push`` are transfers without the server's own work, which is ``receive`` per gradient and ``update``
    per update; ``compute`` is the remaining time. ``spread`` holds durations of single batches, in any unit. ``moved``
    is the total of bytes that a step pulls from and pushes to ``servers``, which hold equal parts.
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


def calibrate(facts: dict[str, Any], epoch_seconds: float) -> Calibration:
    """The calibration from ``facts`` and epoch seconds of a one-worker run at parameter servers.

    A server's working time includes receiving and updating, and is divided equally between ``receive`` and ``update``.
    Raises ValueError for facts of more workers or without servers.
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
    transfer = exchange - server
    return Calibration(
        batches=steps,
        compute=max(0.0, epoch_seconds / steps - exchange),
        pull=transfer / 2,
        push=transfer / 2,
        receive=server / 2,
        update=server / 2,
        spread=tuple(worker["spread"]),
        moved=(worker["bytes_pulled"] + worker["bytes_pushed"]) / steps,
        servers=len(facts["servers"]),
    )


def sharing_factors(alone: dict[str, Any], facts: dict[str, Any]) -> tuple[float, float]:
    """Slow-down of workers on one machine against one worker: of the computation per target, and of an exchange.

    ``alone`` and ``facts`` are those of runs on the same targets; neither factor includes waiting for other workers.
    """

    def seconds_of(run: dict[str, Any]) -> tuple[float, float]:
        workers = run["workers"]
        targets, steps = (sum(worker[name] for worker in workers) for name in ("targets", "steps"))
        exchange = sum(worker["pull"] + worker["push"] for worker in workers)
        return sum(worker["compute"] for worker in workers) / max(targets, 1), exchange / max(steps, 1)

    (compute, exchange), (compute_alone, exchange_alone) = seconds_of(facts), seconds_of(alone)
    return compute / max(compute_alone, 1e-30), exchange / max(exchange_alone, 1e-30)


def with_sharing(measured: Calibration, factors: tuple[float, float]) -> Calibration:
    """The calibration with computation and exchanges ``factors`` times as long."""
    compute, exchange = factors
    exchanges = {name: getattr(measured, name) * exchange for name in ("pull", "push", "receive", "update")}
    return replace(measured, compute=measured.compute * compute, **exchanges)


def expected_slowest(spread: Sequence[float], workers: int) -> float:
    """Expected maximum of ``workers`` draws from measured durations over their mean: at least 1."""
    if not len(spread):
        return 1.0
    durations = np.sort(np.asarray(spread, dtype=np.float64))
    share = np.arange(len(durations) + 1) / len(durations)
    return float((durations * np.diff(share**workers)).sum() / durations.mean())


def predicted_seconds(
    measured: Calibration,
    workers: int,
    strategy: str = "async",
    staleness: int = 0,
    network: ClusterNetwork = NO_NETWORK,
) -> float:
    """Model: epoch seconds of ``workers`` on a machine each; one worker without a network is as measured."""
    if workers < 1:
        raise ValueError(f"workers={workers} is not allowed: at least 1")
    steps = -(-measured.batches // workers)
    link = measured.moved / measured.servers / network.bandwidth
    away = measured.pull + measured.push + MESSAGES * network.latency + (measured.servers - 1) * link
    if strategy == "sync" or (strategy == "bounded" and staleness == 0):
        compute = measured.compute * expected_slowest(measured.spread, workers)
        return steps * (compute + away + workers * (measured.receive + link) + measured.update)
    if strategy not in ("async", "bounded"):
        raise ValueError(f"strategy={strategy!r} has no model: one of sync, async, bounded")
    think, served = measured.compute + away, measured.receive + measured.update + link
    return steps * (think + residence_time(think, served, measured.batches / steps))


def residence_time(think: float, served: float, workers: float) -> float:
    """Residence time ``R`` of a step at a server, with waiting; ``workers`` is the mean number of active ones."""
    ahead = workers * served - think
    root = math.sqrt(ahead**2 + 4 * served * think)
    # of two forms of the same root, the one that does not subtract nearly equal numbers
    return (ahead + root) / 2 if ahead >= 0 else 2 * served * think / (root - ahead)


def speedup_curve(
    measured: Calibration,
    workers: Sequence[int],
    strategy: str = "async",
    network: ClusterNetwork = NO_NETWORK,
    staleness: int = 0,
) -> list[dict[str, float | str]]:
    """Model: seconds and speed-up for each number of workers, in rows that name the assumed network."""
    alone = predicted_seconds(measured, 1, strategy, staleness, network)
    assumed = "no network" if network == NO_NETWORK else str(network)
    rows: list[dict[str, float | str]] = []
    for count in workers:
        seconds = predicted_seconds(measured, count, strategy, staleness, network)
        row: dict[str, float | str] = {"workers": count, "seconds": seconds, "speedup": alone / seconds}
        rows.append(row | {"kind": "model", "network": assumed})
    return rows


def slope(rows: Sequence[dict[str, Any]]) -> float:
    """Least-squares slope of the speed-up over the workers, through 1 at one worker; AGL reports 0.8."""
    workers = np.array([float(row["workers"]) - 1 for row in rows])
    speedup = np.array([float(row["speedup"]) - 1 for row in rows])
    return float((workers * speedup).sum() / max((workers * workers).sum(), 1e-30))


def speedup_rows(
    records: Sequence[Record], batches: int | None = None, networks: Sequence[Mapping[str, float]] = ()
) -> list[dict[str, Any]]:
    """Rows of measured epochs with the model's error at each, then rows of the model.

    Seconds of measured epochs that were cut are scaled to whole ones. The model is computed for an epoch of ``batches``
    (default: the measured number), without a network, as in the measurements, and with each of the assumed ``networks``
    (``bandwidth`` in bytes per second, ``latency`` in seconds).
    ``model_error`` is the error of the model with a machine per worker, ``shared_error`` with all workers on one
    machine, where computation and exchanges take ``compute_shared`` and ``exchange_shared`` times as long as for one
    worker, by the workers' own clocks. Raises ValueError without records of servers, or a run of one worker.
    """
    curves: dict[tuple[str, int], dict[int, Record]] = {}
    for record in records:
        if record["status"] == "ok" and record["facts"].get("servers"):
            curves.setdefault(_rules_of(record), {})[record["config"]["backend"]["workers"]] = record
    if not curves:
        raise ValueError("no record has parameter servers: measure backend.strategy=sync, async or bounded")
    rows: list[dict[str, Any]] = []
    for (strategy, staleness), runs in sorted(curves.items()):
        if 1 not in runs:
            raise ValueError(f"no record of strategy={strategy} has workers=1: measure one, it calibrates the model")
        of_one_worker = median(runs[1]["epochs"]["seconds"])
        model = calibrate(runs[1]["facts"], of_one_worker)
        for workers, record in sorted(runs.items()):
            epoch, factors = median(record["epochs"]["seconds"]), sharing_factors(runs[1]["facts"], record["facts"])
            alone, shared = (
                predicted_seconds(one, workers, strategy, staleness) for one in (model, with_sharing(model, factors))
            )
            row = {"strategy": strategy, "workers": workers, "kind": "measured", "speedup": of_one_worker / epoch}
            row |= {"seconds": epoch * record.get("extrapolated", 1.0), "model_error": alone / epoch - 1}
            row |= {"compute_shared": factors[0], "exchange_shared": factors[1], "shared_error": shared / epoch - 1}
            rows.append(row)
        larger = replace(model, batches=batches or model.batches)
        for network in (NO_NETWORK, *(ClusterNetwork(**options) for options in networks)):
            modelled = speedup_curve(larger, WORKERS, strategy, network, staleness)
            rows += [{"strategy": strategy, **row, "slope": slope(modelled)} for row in modelled]
    return rows


def _rules_of(record: Record) -> tuple[str, int]:
    """The strategy of a record, and the staleness of one that is bounded."""
    config = record["config"]["backend"]
    return config["strategy"], config["staleness"] if config["strategy"] == "bounded" else 0
