"""``python -m backends.agl.train.curve RECORD...``: the speed-up that records measured, and the model beyond them.

Records are those of ``+suite=agl_speedup``; one with ``workers=1`` at parameter servers calibrates the model.
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from backends.agl.train.speedup import NO_NETWORK, Network, calibrated, curve, predicted, shared, sharing, slope

WORKERS = (1, *range(10, 101, 10))


def rows_of(
    records: Sequence[dict[str, Any]], batches: int | None = None, networks: Sequence[Mapping[str, float]] = ()
) -> list[dict[str, Any]]:
    """Measured rows with the model's error at each, then the model's, for an epoch of ``batches`` if that is given.

    The model stands without a network, as it was checked, and with each of ``networks`` (``bandwidth`` in bytes per
    second, ``latency`` in seconds), which are assumed.

    ``model_error`` takes each worker for a machine of its own, ``shared_error`` lets them share this one: computation
    and exchanges ``compute_shared`` and ``exchange_shared`` times as long as alone, as their own clocks say.
    Raises ValueError without a run of one worker.
    """
    held = [record for record in records if record["status"] == "ok" and record["facts"].get("servers")]
    rows: list[dict[str, Any]] = []
    for strategy in sorted({record["config"]["backend"]["strategy"] for record in held}):
        runs = {
            record["config"]["backend"]["workers"]: record
            for record in held
            if record["config"]["backend"]["strategy"] == strategy
        }
        if 1 not in runs:
            raise ValueError(f"no record of strategy={strategy} has workers=1: measure one, it calibrates the model")
        seconds = {workers: median(record["epochs"]["seconds"]) for workers, record in sorted(runs.items())}
        model = calibrated(runs[1]["facts"], seconds[1])
        for workers, spent in seconds.items():
            row = {"strategy": strategy, "workers": workers, "seconds": spent, "speedup": seconds[1] / spent}
            factors = sharing(runs[1]["facts"], runs[workers]["facts"])
            beside = predicted(shared(model, factors), workers, strategy) / spent - 1
            row |= {"kind": "measured", "model_error": predicted(model, workers, strategy) / spent - 1}
            rows.append(row | {"compute_shared": factors[0], "exchange_shared": factors[1], "shared_error": beside})
        larger = replace(model, batches=batches or model.batches)
        for network in (NO_NETWORK, *(Network(**held) for held in networks)):
            further = curve(larger, WORKERS, strategy, network)
            rows += [{"strategy": strategy, **row, "slope": slope(further)} for row in further]
    return rows


def main(arguments: list[str] | None = None) -> int:
    """Print the rows as a table; 2 when the records do not serve."""
    parser = argparse.ArgumentParser("python -m backends.agl.train.curve", description=__doc__)
    parser.add_argument("records", type=Path, nargs="+", help="records of runs that differ in workers and strategy")
    parser.add_argument("--batches", type=int, help="batches of the epoch that the model is for (those measured)")
    parser.add_argument("--bandwidth", type=float, help="assumed network: bytes per second of each machine's link")
    parser.add_argument("--latency", type=float, default=0.0, help="of it: seconds of a message, one way")
    given = parser.parse_args(arguments)
    networks = [] if given.bandwidth is None else [{"bandwidth": given.bandwidth, "latency": given.latency}]
    try:
        rows = rows_of([json.loads(path.read_text()) for path in given.records], given.batches, networks)
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
