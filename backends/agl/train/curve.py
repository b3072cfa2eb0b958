"""``python -m backends.agl.train.curve RECORD...``: measured speed-up of records, and the model for more workers.

Records are those of ``+suite=agl_speedup``; one of ``workers=1`` at parameter servers calibrates the model.
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from backends.agl.train.speedup import (
    NO_NETWORK,
    ClusterNetwork,
    calibrate,
    predicted_seconds,
    sharing_factors,
    slope,
    speedup_curve,
    with_sharing,
)

WORKERS = (1, *range(10, 101, 10))


def speedup_rows(
    records: Sequence[dict[str, Any]], batches: int | None = None, networks: Sequence[Mapping[str, float]] = ()
) -> list[dict[str, Any]]:
    """Rows of measured epochs with the model's error at each, then rows of the model.

    The model is computed for an epoch of ``batches`` (default: the measured number), without a network, as in the
    measurements, and with each of the assumed ``networks`` (``bandwidth`` in bytes per second, ``latency`` in seconds).
    ``model_error`` is the error of the model with a machine per worker, ``shared_error`` with all workers on one
    machine, where computation and exchanges take ``compute_shared`` and ``exchange_shared`` times as long as for one
    worker, by the workers' own clocks. Raises ValueError without records of servers, or a run of one worker.
    """
    served = [record for record in records if record["status"] == "ok" and record["facts"].get("servers")]
    if not served:
        raise ValueError("no record has parameter servers: measure backend.strategy=sync, async or bounded")
    rows: list[dict[str, Any]] = []
    for strategy, staleness in sorted({_rules_of(record) for record in served}):
        runs = {
            record["config"]["backend"]["workers"]: record
            for record in served
            if _rules_of(record) == (strategy, staleness)
        }
        if 1 not in runs:
            raise ValueError(f"no record of strategy={strategy} has workers=1: measure one, it calibrates the model")
        seconds = {workers: median(record["epochs"]["seconds"]) for workers, record in sorted(runs.items())}
        model = calibrate(runs[1]["facts"], seconds[1])
        for workers, epoch in seconds.items():
            row = {"strategy": strategy, "workers": workers, "seconds": epoch, "speedup": seconds[1] / epoch}
            factors = sharing_factors(runs[1]["facts"], runs[workers]["facts"])
            alone, shared = (
                predicted_seconds(one, workers, strategy, staleness) for one in (model, with_sharing(model, factors))
            )
            shared_error = shared / epoch - 1
            row |= {"kind": "measured", "model_error": alone / epoch - 1}
            rows.append(
                row | {"compute_shared": factors[0], "exchange_shared": factors[1], "shared_error": shared_error}
            )
        larger = replace(model, batches=batches or model.batches)
        for network in (NO_NETWORK, *(ClusterNetwork(**options) for options in networks)):
            modelled = speedup_curve(larger, WORKERS, strategy, network, staleness)
            rows += [{"strategy": strategy, **row, "slope": slope(modelled)} for row in modelled]
    return rows


def _rules_of(record: Mapping[str, Any]) -> tuple[str, int]:
    """The strategy of a record, and the staleness of one that is bounded."""
    config = record["config"]["backend"]
    return config["strategy"], config["staleness"] if config["strategy"] == "bounded" else 0


def main(arguments: list[str] | None = None) -> int:
    """Print the rows as a table; 2 where the records cannot be read or calibrate no model."""
    parser = argparse.ArgumentParser("python -m backends.agl.train.curve", description=__doc__)
    parser.add_argument("records", type=Path, nargs="+", help="records of runs that differ in workers and strategy")
    parser.add_argument("--batches", type=int, help="batches of the modelled epoch (as measured)")
    parser.add_argument("--bandwidth", type=float, help="assumed network: bytes per second of each machine's link")
    parser.add_argument("--latency", type=float, default=0.0, help="assumed network: seconds of a message, one way (0)")
    parsed = parser.parse_args(arguments)
    networks = [] if parsed.bandwidth is None else [{"bandwidth": parsed.bandwidth, "latency": parsed.latency}]
    try:
        rows = speedup_rows([json.loads(path.read_text()) for path in parsed.records], parsed.batches, networks)
    except (OSError, ValueError, KeyError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print("strategy  workers  seconds  speed-up  kind      model's error, sharing the machine")
    for row in rows:
        errors = [f"{100 * row[name]:+.0f} %" for name in ("model_error", "shared_error") if name in row]
        numbers = f"{row['workers']:7}  {row['seconds']:7.3f}  {row['speedup']:8.2f}"
        print(f"{row['strategy']:8}  {numbers}  {row['kind']:8}  {', '.join(errors) or row['network']}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
