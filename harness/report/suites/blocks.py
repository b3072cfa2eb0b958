"""What a suite's file may name: blocks of its page under ``report``, measures beside the paper's under ``claims``."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from harness.report import tables
from harness.report.suites import cost, flat, hubs, inference, scores, speedup, timing
from harness.report.suites import pictures as pictures_of
from harness.report.suites.part import SuitePart, seconds
from harness.usage import unknown

Text = Callable[[SuitePart], str]


@dataclass(frozen=True)
class Block:
    """A section of a page: its heading, how to read it, and what makes it."""

    title: str
    reading: str
    make: Text
    figure: Text | None = None


BLOCKS = {
    "overview": Block(
        "Ours beside the fastest peer",
        "Our fastest row without an ablation; the fastest form of any peer, where it was measured in the same table. "
        "Seconds are of a whole epoch, scaled up where only its first batches ran.",
        timing.overview,
    ),
    "cells": Block(
        "All cells",
        "**n**: processes, one per seed. **Ratio**: time over that of the fastest peer (★) of the same groups, "
        "below 1 is faster, `~`: its interval holds 1. **Once before**: what the engine does once, beyond "
        "reading the graph. ≈ whole epoch from a part of its batches. ✗ ended badly, ≠ failed the parity gate, ∅ "
        "not possible here.",
        timing.cells,
    ),
    "ideas": Block(
        "The paper's ideas one by one",
        "How many times as fast as `base`, which has none of them, over the same batches in memory. **all**: all "
        "three, the pipeline too; **default**: what runs when nothing is said, without a pipeline below 3 threads.",
        timing.ideas,
    ),
    "breakeven": Block(
        "Preparation, and when it has paid off",
        "**Break-even epochs**: seconds that ours prepares for longer than the fastest peer, over seconds that "
        "it saves in every epoch; `never`: its epochs are no faster, `ahead for`: it starts earlier and is "
        "overtaken. Where a part of the targets was flattened, seconds and bytes are scaled to all of them.",
        timing.breakeven,
    ),
    "scores": Block(
        "Scores",
        "Mean ± standard deviation over seeds (their number) of the test score at the best validation epoch. "
        "The last column is the distance to the nearest and to the farthest peer, over the seeds that both have.",
        scores.scores,
    ),
    "workers": Block(
        "Scores by number of workers",
        "Beside one worker of the same strategy; test scores are those of the best validation epoch. "
        f"**Epochs to within {scores.NEAR}**: the first whose validation "
        "score is that near to the best one of one worker; median over seeds, — where a seed never is.",
        scores.workers,
        pictures_of.scores_by_epoch,
    ),
    "speedup": Block(
        "Speed-up by number of workers",
        "`measured` rows ran here, as far as there are cores. `model` rows did not: they are computed from what "
        "one worker measured (compute, pull, push, the server's own time, bytes of a step), for an epoch over the "
        "published graph's 1.2 · 10^8 targets, each further worker on a machine of its own; messages wait for each "
        "other at the server. `no network` is the model that was checked against the measured rows; a network's "
        "bandwidth of each machine's link and latency one way are **assumed**, as the paper does not give its own, and "
        "nothing is fitted to its 78. Measured workers share this machine: "
        "**beside others** is how many times as long a worker computes on a target, or exchanges in a step, as one "
        "alone, by the workers' own clocks, and **error with both** the model's error once it knows that.",
        speedup.speedup,
        pictures_of.speedup_by_workers,
    ),
    "inference": Block(
        "Inference of all nodes",
        "(a) is the module that GraphInfer replaced, inference from GraphFeatures: each batch of targets from its own "
        "neighbourhoods. They are cut from the graph in memory, so that (a) reads no shards from disk and is faster "
        "than it was. (b) is the fastest peer in its fastest form: layer by layer over blocks, or over the whole graph "
        "at once. **Once before**: what an engine does before it is asked, Map of GraphInfer, or a copy of the "
        "features and the graph in its own form. **First call**: the first of a process, which finds its own files and "
        "caches cold; engines that map the features read them in it, those that copied them did so before. The "
        "kernel's page cache is never dropped. Memory is the whole process tree's, graph and framework included; pages "
        "of the graph's files that several open cells map count in equal parts. Calls and batches are those of one "
        "thread budget, so **CPU s** over the time says how many cores worked.",
        inference.inference,
    ),
    "cost": Block(
        "Cost by size, and on the published graph",
        "A unit of work takes s(V) seconds on V nodes. With V_m the largest measured size and b the "
        "least-squares slope of s over ln V, work U on V nodes takes **T = U · (s(V_m) + max(b, 0) · ln(V / "
        "V_m))**. **Error on the largest**: the same law fitted on all smaller sizes, over what was measured "
        "there, minus 1. CPU hours are machine hours times the CPU seconds per second of the largest size. The "
        "last column leaves the growth out.",
        cost.cost,
        pictures_of.cost_by_size,
    ),
    "graphfeatures": Block(
        "GraphFeatures per second",
        "Of the targets flattened in one call, reading, sampling, encoding and writing included; on Ray also starting "
        "and stopping it. Bytes are those of the records: features in each as in the paper, or once a shard. **The "
        "disk takes**: a plain sequential write of as many bytes, in the same process, fastest of three, until the "
        "kernel has them, as shards are written; **synced**: until the disk has them.",
        flat.graphfeatures,
    ),
    "hubs": Block(
        "Balance on hubs",
        "In-edges that come to a reducer before they are sampled. Those of a node with more than the given number are "
        "spread over all reducers by a random suffix, sampled and brought together again; the result is the same.",
        hubs.hubs,
        hubs.picture,
    ),
    "sampling": Block(
        "Sampling alone",
        "An epoch's batches, without features and compute. Engines draw from the same graph for the same targets; "
        "**edges** are those that each draws. AGL draws once for each node of a batch; DGL draws for each layer anew, "
        "so that some edges of its targets count twice: targets per second compare the time alone.",
        flat.sampling,
    ),
}

Measure = tuple[Text, Text]


def nothing(held: SuitePart) -> str:
    """There is nothing to stand there."""
    return tables.NOTHING


MEASURES: dict[str, Measure] = {
    "memory train": (partial(cost.largest_memory, stage="train"), nothing),
    "times pyg": (partial(timing.peer_range, name="pyg"), partial(timing.peer_range, name=None)),
    "times dgl": (partial(timing.peer_range, name="dgl"), partial(timing.peer_range, name=None)),
    "flat rate": (flat.best_rates, nothing),
    "hub balance": (hubs.balances, nothing),
    "edges sampled": (nothing, flat.sampling_range),
    "score gap": (scores.largest_gap, nothing),
    "worker gap": (scores.largest_distance, nothing),
    "speed-up": (speedup.most_measured, nothing),
    "speed-up model": (speedup.modelled, nothing),
    "inference time": (
        partial(inference.against, rival=inference.replaced, of=seconds),
        partial(inference.against, rival=inference.best_peer, of=seconds),
    ),
    "inference cpu": (
        partial(inference.against, rival=inference.replaced, of=inference.cpu),
        partial(inference.against, rival=inference.best_peer, of=inference.cpu),
    ),
    "inference memory": (
        partial(inference.against, rival=inference.replaced, of=inference.peak),
        partial(inference.against, rival=inference.best_peer, of=inference.peak),
    ),
    **{
        f"hours {stage}": (
            partial(cost.hours_of, stage=stage, ours=True),
            partial(cost.hours_of, stage=stage, ours=False),
        )
        for stage in cost.WORK
    },
}


def sections(held: SuitePart) -> list[tuple[Block, str]]:
    """The blocks that a suite names and that its records fill; raises UsageError for a name that is none."""
    made = [(block_of(name), block_of(name).make(held), figure_of(held, name)) for name in held.suite.report]
    return [(block, text + (f"\n\n![{block.title}]({at})" if block.figure else "")) for block, text, at in made if text]


def pictures(held: SuitePart) -> dict[str, str]:
    """Path below the reports and SVG of each figure of a suite's page."""
    drawn = [(figure_of(held, name), block_of(name)) for name in held.suite.report]
    return {at: block.figure(held) for at, block in drawn if block.figure and block.make(held)}


def figure_of(held: SuitePart, name: str) -> str:
    """Where the figure of a block lies."""
    return f"figures/{held.suite.name}-{name}.svg"


def block_of(name: str) -> Block:
    """Find a block by name."""
    if name not in BLOCKS:
        raise unknown("block of a suite's report", name, BLOCKS)
    return BLOCKS[name]


def claims(held: SuitePart) -> str:
    """The paper's claims, what is measured here, and the same against the fairest baseline."""
    lines = []
    for claim in held.suite.claims:
        if claim["measure"] not in MEASURES:
            raise unknown("measure of a suite's claim", claim["measure"], MEASURES)
        measured, fair = MEASURES[claim["measure"]]
        lines.append([claim["what"], claim["paper"], measured(held), fair(held), claim.get("source", "")])
    head = ["", "paper", "measured here", "fair baseline", "where the paper says so"]
    return tables.markdown(head, lines) if lines else ""
