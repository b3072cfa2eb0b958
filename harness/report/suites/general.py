"""Sections and measures for suites of any paper: times of all cells, ours beside the fastest peer, scores."""

from functools import partial

from harness.report.content import Code, Strong
from harness.report.suites import scores, timing
from harness.report.suites.section import Measure, SuiteSection

SECTIONS = {
    "overview": SuiteSection(
        "Ours beside the fastest peer",
        "Our fastest row without an ablation; the fastest form of any peer, where it was measured in the same table. "
        "Seconds are of a whole epoch, scaled up where only its first batches ran.",
        timing.overview,
    ),
    "cells": SuiteSection(
        "All cells",
        [
            *(Strong("n"), ": processes, one per seed. ", Strong("Ratio")),
            *(": time over that of the fastest peer (★) of the same groups, below 1 is faster, ", Code("~")),
            *(
                ": its interval holds 1. ",
                Strong("Once before"),
                ": what the engine does once, beyond reading the graph. ",
            ),
            "≈ whole epoch from a part of its batches. ✗ ended badly, ≠ failed the parity gate, ∅ not possible here.",
        ],
        timing.cells,
    ),
    "scores": SuiteSection(
        "Scores",
        "Mean ± standard deviation over seeds (their number) of the test score at the best validation epoch. "
        "The last column is the distance to the nearest and to the farthest peer, over the seeds that both have.",
        scores.scores,
    ),
}
MEASURES = {
    "times pyg": Measure(partial(timing.peer_range, name="pyg"), partial(timing.peer_range, name=None)),
    "times dgl": Measure(partial(timing.peer_range, name="dgl"), partial(timing.peer_range, name=None)),
    "score gap": Measure(scores.largest_gap),
}
