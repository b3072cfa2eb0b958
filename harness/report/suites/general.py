"""Sections and measures for suites of any paper: times of all cells, ours beside the fastest peer, scores."""

from functools import partial

from harness.report import formats
from harness.report.suites import scores, timing
from harness.report.suites.section import Measure, SuiteSection

SECTIONS = {
    "overview": SuiteSection(
        "Ours beside the fastest peer",
        "Our fastest row without an ablation, beside the fastest form of any peer in the same table. Seconds are of a "
        "whole epoch; where only its first batches ran, they are scaled up.",
        timing.overview,
    ),
    "cells": SuiteSection(
        "All cells",
        "≈ marks whole epochs that are extrapolated from a part of their batches. ✗ ended badly, ≠ failed the parity "
        "gate, ∅ not possible here.",
        timing.cells,
        terms={
            "n": formats.TIMES["n"],
            "ratio to fastest peer": "time divided by that of the fastest peer (★) of the same groups. Below 1 is "
            "faster; ~ means that the interval contains 1",
            "once before": "seconds of the engine's own preparation, without reading the graph",
        },
    ),
    "scores": SuiteSection(
        "Scores",
        "Mean ± standard deviation over seeds (their number in parentheses) of the test score at the epoch with the "
        "best validation score. The last column is our distance from the nearest and from the farthest peer, over the "
        "seeds that both have.",
        scores.scores,
    ),
}
MEASURES = {
    "times pyg": Measure(partial(timing.peer_range, name="pyg"), partial(timing.peer_range, name=None)),
    "times dgl": Measure(partial(timing.peer_range, name="dgl"), partial(timing.peer_range, name=None)),
    "score gap": Measure(scores.largest_gap),
}
