"""Counts false alarms of the parity gate: ``python -m tests.harness.verify.false_alarms [CELLS] [FIRST SEED]``.

Right engines compute random cells; the gate should pass all of them, steps and epochs of training too, on their graphs.
In each twentieth cell the gate of dropout is asked as well. Prints the largest multiples per engine and model, every
cell that failed, and the counts; ends with 1 if any failed.
"""

import sys
import traceback
from collections import defaultdict
from dataclasses import replace
from typing import Any

import torch

from harness.verify.comparison import ALLOWED, UNITS, Subject, compare
from harness.verify.dropout import verify_dropout
from harness.verify.epochs import verify_epochs
from harness.verify.models import ModelSubject
from harness.verify.products import ProductSubject
from harness.verify.steps import verify_steps
from tests.harness.verify.random_cells import RandomCell, random_cell

DROPOUT_EVERY = 20  # seeds
RATES = (0.1, 0.5, 0.8)


def verdict(cell: RandomCell) -> dict[str, Any]:
    """The gate's comparison of a cell on its whole graph; raises Incorrect for a dropout that is not right."""
    config = cell.config
    kind = ProductSubject if config.scenario.name == "spmm" else ModelSubject
    subject: Subject = kind(config, cell.graph)
    if config.scenario.name == "train" and config.seed % DROPOUT_EVERY == 0:
        rate = RATES[config.seed // DROPOUT_EVERY % len(RATES)]
        verify_dropout(replace(config, training=replace(config.training, dropout=rate, attention_dropout=rate)))
    trained = (verify_steps, verify_epochs) if config.scenario.name == "train" else ()
    epochs = [part for verify in trained for part in verify(config, cell.graph).values()]
    parity = compare(subject, config.seed, UNITS["float32"])
    for part in epochs:
        parity |= {name: max(parity[name], part[name]) for name in ("forward", "gradient", "tries")}
    return parity


def main(cells: int = 2000, first: int = 0) -> int:
    """Compare many cells; returns the number of those that failed."""
    torch.set_num_threads(1)
    multiples: dict[tuple[str, str], list[float]] = defaultdict(list)
    failed = retried = 0
    for seed in range(first, first + cells):
        cell = random_cell(seed)
        try:
            parity = verdict(cell)
        except Exception:
            parity = {
                "wrong": True,
                "error": traceback.format_exc(limit=-4),
                "forward": 0.0,
                "gradient": 0.0,
                "tries": 1,
            }
        multiples[cell.config.backend.name, cell.config.model.name].append(max(parity["forward"], parity["gradient"]))
        retried += parity["tries"] > 1
        if parity["wrong"]:
            failed += 1
            print(f"FALSE ALARM seed {seed}: {parity}\n  {cell}", flush=True)
        if seed % 100 == 99:
            print(f"{seed + 1 - first} cells, {failed} false alarms, {retried} tried again", flush=True)
    print(f"{'engine':12} model {'cells':>6} {'median':>8} {'largest':>8}  (allowed {ALLOWED:g})")
    for (engine, model), values in sorted(multiples.items()):
        values.sort()
        print(f"{engine:12} {model:5} {len(values):6} {values[len(values) // 2]:8.3f} {values[-1]:8.3f}")
    print(f"{cells} right runs: {failed} false alarms, {retried} needed a second state")
    return failed


if __name__ == "__main__":
    sys.exit(1 if main(*map(int, sys.argv[1:])) else 0)
