"""Two checkouts measured in turns: the same cells in fresh processes, A B B A A B B A ..., until there is a verdict."""

import filecmp
import json
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, cast

from harness.compare.checkout import CellOutcome, Checkout, Plan
from harness.compare.factor import UNDECIDED
from harness.compare.signed_ranks import SequentialRule
from harness.compare.verdict import NOT_COMPARABLE, TIMED_OTHERWISE, Verdict, differing, verdict_by_status
from harness.launcher.process import Guard
from harness.store.naming import label
from harness.store.record import Record
from harness.terminal.pairs_progress import PairsProgress
from harness.usage import UsageError

SAMPLES = 5
# Passes apart from the timing; the gate is passed once, before the first pair.
TIMING_ONLY = {"processes": 1, "memory": False, "limits": False, "cache": "none"}
Sides = tuple[CellOutcome, CellOutcome]


@dataclass
class PairedCell:
    """One cell of both plans: the seconds of its runs in pairs, and the verdict once there is one."""

    name: str
    note: str = ""
    a: list[float] = field(default_factory=list)
    b: list[float] = field(default_factory=list)
    verdict: Verdict | None = None

    def add(self, outcomes: Sides) -> None:
        """Take over one run of each side; a run that fails is the verdict."""
        first, second = (outcome.seconds for outcome in outcomes)
        if first is None or second is None:
            medians = [median(side) if side else one for side, one in ((self.a, first), (self.b, second))]
            worse = (None if first is None else medians[0], None if second is None else medians[1])
            self.verdict = verdict_by_status(self.name, *worse, (outcomes[0].status, outcomes[1].status))
            return
        self.a.append(first)
        self.b.append(second)
        if outcomes[0].extrapolated != outcomes[1].extrapolated:
            self.verdict = Verdict(self.name, median(self.a), median(self.b), None, NOT_COMPARABLE, TIMED_OTHERWISE)

    def look(self, rule: SequentialRule, cells: int) -> None:
        """Judge the pairs so far, where the rule says that it is time."""
        ratios = [second / first for first, second in zip(self.a, self.b, strict=True)]
        judgement = rule.verdict(ratios, cells) if self.verdict is None else None
        if judgement is not None:
            factor, word = judgement
            more = f"more than {rule.pairs} pairs are needed: --pairs N" if word == UNDECIDED else ""
            reason = "; ".join(text for text in (more, self.note) if text)
            self.verdict = Verdict(self.name, median(self.a), median(self.b), factor, word, reason)


def measure_in_turns(a: Checkout, b: Checkout, overrides: Sequence[str], rule: SequentialRule) -> list[Verdict]:
    """Measure the cells of the overrides in both checkouts and return a verdict for each.

    Raises UsageError for a checkout that cannot be measured and for overrides that do not fit it.
    """
    for checkout in {a.root: a, b.root: b}.values():
        checkout.check()
    with (
        closing(Guard()) as guard,
        temporary_folder(guard) as folder,
        PairsProgress(rule.pairs) as progress,
    ):
        turns = Turns((a, b), folder, guard, progress)
        turns.plan(overrides)
        rule.check(len(cells_of(turns.plans[0])))
        cells = turns.gate()
        for number in range(rule.pairs):
            if all(cell.verdict for cell in cells):
                break
            for cell, outcomes in zip(cells, turns.pair(number), strict=True):
                if cell.verdict is None:
                    cell.add(outcomes)
                    cell.look(rule, len(cells))
            progress.pair(number + 1, [(cell.name, cell.a, cell.b) for cell in cells if not cell.verdict])
    return [cell.verdict for cell in cells if cell.verdict is not None]


@contextmanager
def temporary_folder(guard: Guard) -> Iterator[Path]:
    """Yield a temporary folder that goes with this context and with this process."""
    folder = Path(tempfile.gettempdir(), f"gnn-harness-compare-{secrets.token_hex(8)}")
    # The guard hears of the folder before there is one: this process may be killed at any line.
    guard.tell("watch", str(folder))
    try:
        folder.mkdir(mode=0o700)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        guard.tell("forget", str(folder))


class Turns:
    """Runs of two checkouts, with their plans in a temporary folder."""

    def __init__(
        self, checkouts: tuple[Checkout, Checkout], folder: Path, guard: Guard, progress: PairsProgress
    ) -> None:
        self.checkouts, self.folder, self.guard, self.progress = checkouts, folder, guard, progress
        self.plans: tuple[Plan, Plan]

    def plan(self, overrides: Sequence[str]) -> None:
        """Let each checkout plan the cells; raises UsageError where the plans do not match."""
        first, second = self.checkouts
        plan_a = self._plan(first, overrides)
        plan_b = deepcopy(plan_a) if second.root == first.root else self._plan(second, overrides)
        self.plans = (plan_a, plan_b)
        counts = [len(cells_of(plan)) for plan in self.plans]
        if counts[0] != counts[1]:
            message = f"the overrides are {counts[0]} cells in {first.root} and {counts[1]} in {second.root}"
            raise UsageError(f"{message}: give overrides that name the same cells in both")
        for one, other in zip(*map(cells_of, self.plans), strict=True):
            share_graph(one, other, self.folder)

    def _plan(self, checkout: Checkout, overrides: Sequence[str]) -> Plan:
        self.progress.step(f"planning in {checkout.root}")
        return checkout.plan(overrides, self.folder, self.guard)

    def gate(self) -> list[PairedCell]:
        """Pass the parity gate in both checkouts, with one sample that does not count; failures are verdicts."""
        first = self._run(0, once)
        second = first if self.checkouts[0].root == self.checkouts[1].root else self._run(1, once)
        cells = []
        for name, one, other in zip(titles(cells_of(self.plans[1])), first, second, strict=True):
            cell = PairedCell(name, differing(one.checked, other.checked))
            if one.seconds is None or other.seconds is None:
                cell.add((one, other))
            cells.append(cell)
        return cells

    def pair(self, number: int) -> list[Sides]:
        """Run both checkouts, the second one first in every other pair; outcomes by cell."""
        outcomes = {side: self._run(side, timed) for side in ((0, 1) if number % 2 == 0 else (1, 0))}
        return list(zip(outcomes[0], outcomes[1], strict=True))

    def _run(self, side: int, change: Callable[[dict[str, Any]], None]) -> list[CellOutcome]:
        """Run one side in a results folder of its own, which is deleted at once."""
        plan = deepcopy(self.plans[side])
        for cell in cells_of(plan):
            change(cell["config"])
        path, out = self.folder / "cells.json", self.folder / "results"
        path.write_text(json.dumps(plan))
        self.progress.step(f"measuring {'AB'[side]}")
        wait = all(cell["config"].get("wait", True) for cell in cells_of(plan))
        try:
            return self.checkouts[side].run(path, out, self.guard, wait, self.progress.line)
        finally:
            shutil.rmtree(out, ignore_errors=True)


def cells_of(plan: Plan) -> list[dict[str, Any]]:
    """All cells of a plan."""
    return [cell for group in plan["groups"] for cell in group["cells"]]


def share_graph(one: dict[str, Any], other: dict[str, Any], folder: Path) -> None:
    """Let two cells map the same files where their graphs are equal, so that these lie on the same pages of memory."""
    if one["graph"] and other["graph"] and one["graph"] != other["graph"]:
        first, second = folder / one["graph"], folder / other["graph"]
        names = sorted(path.name for path in first.iterdir() if path.name != "phases.json")
        if not any(filecmp.cmpfiles(first, second, names, shallow=False)[1:]):
            other["graph"] = one["graph"]


def timed(config: dict[str, Any]) -> None:
    """Keep the timing of a cell's configuration, without gate and passes; keys that a version lacks stay away."""
    measure = config["measure"]
    few = {key: min(SAMPLES, measure[key]) for key in ("min_samples", "max_samples")}
    _change(measure, TIMING_ONLY | few | {"parity": False})
    _change(config["scenario"], {"train_to_end": False})


def once(config: dict[str, Any]) -> None:
    """Keep the gate of a cell's configuration, and one sample."""
    _change(config["measure"], TIMING_ONLY | {"warmup": 0, "min_samples": 1, "max_samples": 1})
    _change(config["scenario"], {"train_to_end": False})


def _change(section: dict[str, Any], values: dict[str, Any]) -> None:
    section.update({key: value for key, value in values.items() if key in section})


def titles(cells: Sequence[dict[str, Any]]) -> list[str]:
    """Name planned cells; equal names are extended by the overrides, or the hashes, in which their cells differ."""
    names = [_title(cell) for cell in cells]
    overrides = [cell.get("overrides") or [] for cell in cells]
    shared = set.intersection(*map(set, overrides)) if overrides else set()
    added = [" ".join(text for text in texts if text not in shared) for texts in overrides]
    return [
        name if names.count(name) == 1 else f"{name} ({text or cell['hash']})"
        for name, text, cell in zip(names, added, cells, strict=True)
    ]


def _title(planned: dict[str, Any]) -> str:
    config = planned["config"]
    ablations = planned["labels"][0] if planned.get("labels") else []
    engine = label(cast(Record, {"config": config, "ablations": ablations}))
    return f"{config['dataset']['name']} {config['model']['name']} {engine} {config['scenario']['name']}"
