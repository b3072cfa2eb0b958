"""How often ``compare --run`` errs here: 40 pairs of identical versions, and 10 of which B is 10 % slower.

    python -m tests.harness.compare.error_rates

Run from the root of a checkout, on a machine that does nothing else; 50 pairs take about 50 minutes on 2 virtual cores.
Each pair is one whole call of ``compare``, whose verdict counts. Exit code 0 if at most one identical pair was called
slower or faster, and at least nine of ten slow-downs were found.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.harness.compare.checkouts import ROOT, add_paced_engine, copy_checkout

CELL = ["backend=paced", "model=gcn", "dataset=uug", "dataset.options.nodes=500", "training.batch_size=null"]
QUICK = ["measure=short", "measure.parity=false", "measure.repeat_seconds=0.02", "threads=1"]
# Each run is a fresh process anyway; a cell in a process of its own takes half as long again.
LAUNCHERS = ("inline", "process")
# An inline cell has the threads and the allocator of its process, which the launcher would set.
INLINE = {"OMP_NUM_THREADS": "1", "MALLOC_TRIM_THRESHOLD_": str(1 << 40), "MALLOC_TOP_PAD_": str(64 << 20)}
VERDICTS = ("slower", "faster", "not significant", "undecided")


def verdict(old: Path, new: Path, launcher: str) -> str:
    """Compare two checkouts and return the verdict; prints the row with the seconds that it took."""
    start = time.monotonic()
    cell = [*CELL, *QUICK, f"launcher={launcher}"]
    command = [sys.executable, "-m", "harness", "compare", "--run", str(old), str(new), *cell]
    environment = os.environ | INLINE | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    rows = [line for line in done.stdout.splitlines() if line.startswith("| uug")]
    if done.returncode not in (0, 3) or len(rows) != 1:
        sys.exit(f"compare ended with {done.returncode}: {done.stdout}{done.stderr}")
    print(f"{time.monotonic() - start:4.0f} s  {rows[0]}", flush=True)
    word = rows[0].split("|")[-2].partition(":")[0].strip()
    if word not in VERDICTS or (done.returncode == 3) != (word == "slower"):
        sys.exit(f"verdict {word!r} with exit code {done.returncode}")
    return word


def main() -> int:
    """Print a row per pair and the counts; return 1 when there are too many errors of either kind."""
    parser = argparse.ArgumentParser("python -m tests.harness.compare.error_rates", description=__doc__)
    parser.add_argument("--identical", type=int, default=40, help="pairs of equal versions (default 40)")
    parser.add_argument("--slower", type=int, default=10, help="pairs of which B is slower (default 10)")
    parser.add_argument("--factor", type=float, default=1.1, help="how much slower (default 1.1)")
    parser.add_argument("--launcher", choices=LAUNCHERS, default="inline", help="of the cells (default inline)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="gnn-harness-rates-") as folder:
        old, new = (copy_checkout(Path(folder, name)) for name in ("old", "new"))
        add_paced_engine(old, 1.0)
        add_paced_engine(new, options.factor)
        slower = Counter(verdict(old, new, options.launcher) for _ in range(options.slower))
        same = Counter(verdict(old, old, options.launcher) for _ in range(options.identical))
    print(f"identical: {dict(same)}\n{options.factor} times as long: {dict(slower)}")
    false = same["slower"] + same["faster"]
    return int(false > options.identical / 40 or slower["slower"] < 0.9 * options.slower)


if __name__ == "__main__":
    sys.exit(main())
