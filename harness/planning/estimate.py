"""Time that a cell will take, estimated from earlier records of the same work, of whatever protocol."""

import statistics
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from harness.launcher.turns import Budget, calls_of_a_turn
from harness.planning.cells import Cell
from harness.planning.identity import cell_folder, execution_config
from harness.store.files import readable_records, record_paths
from harness.store.left_out import LeftOut
from harness.store.naming import flatten
from harness.store.record import Record

NOT_THE_WORK = ("measure.", "launcher.")


def estimated_seconds(cell: Cell, results: Path, machine: str) -> float | None:
    """Return the median over the earlier records of a cell's work, ``None`` where there are none.

    Records of this machine count first, then those of any.
    """
    work = _work(execution_config(cell.config))
    for name in (machine, "*"):
        records = [record for record in _records(cell, results, name) if _same(work, _work(record["config"]))]
        if records:
            measure = asdict(cell.config.measure)
            return statistics.median(expected_seconds(record, measure) for record in records)
    return None


def _records(cell: Cell, results: Path, machine: str) -> Iterator[Record]:
    """Good records of the data set, model, engine and scenario of a cell."""
    for folder in results.glob(str(cell_folder(cell.config, "*", machine))):
        for _, record in readable_records(record_paths(folder), LeftOut(quiet=True)):
            if record["status"] == "ok":
                yield record


def _work(config: Mapping[str, Any]) -> dict[str, str]:
    """What is computed, with dotted keys: not how often, nor by which allocator."""
    flat = flatten(config)
    return {key: str(list(value) if isinstance(value, tuple) else value) for key, value in flat.items()}


def _same(work: Mapping[str, str], earlier: Mapping[str, str]) -> bool:
    """Whether all keys that both have are equal: options that are newer than a record are left out."""
    shared = (key for key in work if key in earlier and not key.startswith(NOT_THE_WORK))
    return all(work[key] == earlier[key] for key in shared)


def expected_seconds(record: Record, measure: Mapping[str, Any]) -> float:
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
