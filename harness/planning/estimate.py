"""Time that a cell will take, estimated from earlier records of the same execution config on this machine."""

import statistics
from pathlib import Path

from harness.planning.cells import Cell
from harness.planning.identity import cell_folder
from harness.store.files import readable_records, record_paths
from harness.store.left_out import LeftOut
from harness.store.record import Record


def estimated_seconds(cell: Cell, results: Path, machine: str) -> float | None:
    """Return the median over earlier records of any seed and group, ``None`` where there are none."""
    folder = results / cell_folder(cell.config, cell.hash, machine)
    records = [record for _, record in readable_records(record_paths(folder), LeftOut(quiet=True))]
    seconds = [total_seconds(record) for record in records if record["status"] == "ok"]
    return statistics.median(seconds) if seconds else None


def total_seconds(record: Record) -> float:
    """Add up a record's preparation, warm-ups, samples, and the epochs of its accuracy pass."""
    seconds = record["epochs"]["seconds"]
    whole_epoch = statistics.median(seconds) * record.get("extrapolated", 1.0)
    training = record.get("metrics", {}).get("epochs_run", 0) * whole_epoch
    total: float = sum(record.get("prepare", {}).values()) + sum(record.get("warmup", [])) + sum(seconds) + training
    return total
