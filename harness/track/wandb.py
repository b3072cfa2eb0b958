"""Weights & Biases: one run per record, its config given at the start, offline unless asked otherwise."""

import hashlib
import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from harness.planning.schema import TrackerConfig
from harness.store.naming import flatten, label
from harness.store.record import Record
from harness.store.samples import median_seconds

SUMMARIZED = ("status", "message", "group", "environment", "prepare", "metrics", "memory", "limits", "extrapolated")


class WandbTracker:
    """Writes each record as a finished run of W&B, which a replay overwrites: its id is a hash of what was measured."""

    def __init__(self, config: TrackerConfig, folder: Path) -> None:
        self.config, self.folder, self.failed = config, folder, 0

    def record(self, record: Mapping[str, Any]) -> None:
        """Send one record; a failure becomes a warning that names the command which replays it."""
        try:
            self._send(cast(Record, record))
        except Exception as error:
            self.failed += 1
            message = (str(error).strip().splitlines() or [type(error).__name__])[0]
            warnings.warn(f"W&B did not take a record ({message}): python -m harness sync replays it", stacklevel=2)

    def _send(self, record: Record) -> None:
        import wandb

        run = wandb.init(
            project=self.config.project,
            mode=self.config.mode,  # type: ignore[arg-type]
            dir=str(self.folder),
            id=run_id(record),
            name=run_name(record),
            group=record["config"].get("suite") or record["group"],
            config=dict(record["config"]) | {"ablation_names": record.get("ablations", [])},
            tags=[record["status"], *record.get("ablations", [])],
            reinit="finish_previous",
            settings=wandb.Settings(console="off", silent=True),
        )
        try:
            run.define_metric("validation/*", step_metric="validation/epoch")
            for row in history(record):
                run.log(row)
            run.summary.update(summary(record))
        finally:
            run.finish()


def run_id(record: Record) -> str:
    """Name W&B's run of a record: the same cell of the same environment, group and run of the group has the same id."""
    parts = [record["config"], record["environment"], record["group"], *([record["run"]] if "run" in record else [])]
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=list).encode()).hexdigest()[:16]


def run_name(record: Record) -> str:
    """Name data set, model, engine and seed of a record."""
    config = record["config"]
    return f"{config['dataset']['name']} {config['model']['name']} {label(record)} seed {config['seed']}"


def history(record: Record) -> list[dict[str, float]]:
    """The samples of the timed call, then the curve of the accuracy pass, as rows to log (seconds)."""
    rows: list[dict[str, float]] = []
    epochs: Mapping[str, Any] = record.get("epochs", {})
    scale = record.get("extrapolated", 1.0)  # of a part to a whole epoch
    series = {key: [scale * value for value in epochs[key]] for key in ("seconds", "cpu_seconds") if key in epochs}
    series |= {"loss": epochs["loss"]} if "loss" in epochs else {}
    series |= {f"phases/{name}": [scale * one for one in values] for name, values in epochs.get("phases", {}).items()}
    for index in range(len(epochs.get("seconds", []))):
        rows.append({f"epoch/{key}": values[index] for key, values in series.items() if index < len(values)})
    names = ("validation/epoch", "validation/loss", "validation/score")
    return rows + [dict(zip(names, values, strict=False)) for values in record.get("validation", [])]


def summary(record: Record) -> dict[str, Any]:
    """Values for W&B's table of runs: status, scores, memory, hit rate, the median epoch (seconds)."""
    values = flatten({key: value for key, value in record.items() if key in SUMMARIZED})
    if "epochs" in record:
        values["epoch_median_seconds"] = median_seconds(record)
    if "hit_rate" in record.get("cache", {}):
        values["cache.hit_rate"] = record["cache"]["hit_rate"]
    return values
