"""Time that a cell will take, estimated from earlier records of the same work, of whatever protocol."""

import statistics
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from harness.launcher.turns import Budget, calls_of_a_turn
from harness.planning.cells import Cell
from harness.planning.identity import cell_folder, execution_config
from harness.store.files import readable_records, record_paths
from harness.store.left_out import LeftOut
from harness.store.naming import flatten

NOT_THE_WORK = ("measure.", "launcher.")
TIMES = ("epochs", "prepare", "metrics", "extrapolated")  # keys of a record from which its time is computed


class Earlier(NamedTuple):
    """What was computed by a good record, and the keys of it that say how long that took."""

    work: dict[str, str]
    times: dict[str, Any]


class Estimates:
    """Times of cells from the records below a results folder, of which each is read once."""

    def __init__(self, results: Path) -> None:
        self.results = results
        self.by_folder: dict[Path, list[Earlier]] = {}

    def seconds(self, cell: Cell, machine: str) -> float | None:
        """Return the median over the earlier records of a cell's work, ``None`` where there are none.

        Records of this machine count first, then those of any.
        """
        work, measure = _work(execution_config(cell.config)), asdict(cell.config.measure)
        for name in (machine, "*"):
            same = [earlier.times for earlier in self._earlier(cell, name) if _same(work, earlier.work)]
            if same:
                return statistics.median(expected_seconds(times, measure) for times in same)
        return None

    def _earlier(self, cell: Cell, machine: str) -> Iterator[Earlier]:
        """Good records of the data set, model, engine and scenario of a cell."""
        for folder in self.results.glob(str(cell_folder(cell.config, "*", machine))):
            if folder not in self.by_folder:
                self.by_folder[folder] = list(_good_records(folder))
            yield from self.by_folder[folder]


def _good_records(folder: Path) -> Iterator[Earlier]:
    for _, record in readable_records(record_paths(folder), LeftOut(quiet=True)):
        if record["status"] == "ok":
            yield Earlier(_work(record["config"]), {key: value for key, value in record.items() if key in TIMES})


def _work(config: Mapping[str, Any]) -> dict[str, str]:
    """What is computed, with dotted keys: not how often, nor by which allocator."""
    flat = flatten(config)
    return {key: str(list(value) if isinstance(value, tuple) else value) for key, value in flat.items()}


def _same(work: Mapping[str, str], earlier: Mapping[str, str]) -> bool:
    """Whether all keys that both have are equal: options that are newer than a record are left out."""
    shared = (key for key in work if key in earlier and not key.startswith(NOT_THE_WORK))
    return all(work[key] == earlier[key] for key in shared)


def expected_seconds(record: Mapping[str, Any], measure: Mapping[str, Any]) -> float:
    """Seconds of a cell that is measured as ``measure`` says, from a record of the same work.

    Every process imports, loads and prepares, warms up and takes its turns; training to the end is done once.
    """
    call = statistics.median(record["epochs"]["seconds"])
    turn = (calls_of_a_turn([call], measure) + 1) * call
    once = record.get("prepare", {})
    fresh = sum(seconds for phase, seconds in once.items() if phase not in ("parse", "order"))
    process = fresh + measure["warmup"] * call + Budget(measure).expected(turn) * turn
    training = record.get("metrics", {}).get("epochs_run", 0) * call * record.get("extrapolated", 1.0)
    return float(measure["processes"] * process + sum(once.values()) - fresh + training)
