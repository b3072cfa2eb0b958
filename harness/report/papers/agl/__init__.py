"""Sections and measures of AGL's suites (Zhang et al., VLDB 2020): GraphFlat, GraphTrainer, GraphInfer."""

from functools import partial

from harness.report.content import Code, Strong
from harness.report.papers.agl import (
    breakeven,
    cost,
    figures,
    flattening,
    hubs,
    ideas,
    inference,
    sampling,
    speedup,
    workers,
)
from harness.report.suites.records import seconds
from harness.report.suites.section import Measure, SuiteFigure, SuiteSection

SECTIONS = {
    "ideas": SuiteSection(
        "The paper's ideas one by one",
        [
            *(
                "How many times as fast as ",
                Code("base"),
                ", which has none of them, over the same batches in memory. ",
            ),
            *(
                Strong("all"),
                ": all three, the pipeline too; ",
                Strong("default"),
                ": what runs when nothing is said, ",
            ),
            "without a pipeline below 3 threads.",
        ],
        ideas.ideas,
    ),
    "breakeven": SuiteSection(
        "Preparation, and when it has paid off",
        [
            *(
                Strong("Break-even epochs"),
                ": seconds that ours prepares for longer than the fastest peer, over seconds ",
            ),
            *("that it saves in every epoch; ", Code("never"), ": its epochs are no faster, ", Code("ahead for")),
            ": it starts earlier and is overtaken. Where a part of the targets was flattened, seconds and bytes are "
            "scaled to all of them.",
        ],
        breakeven.breakeven,
    ),
    "workers": SuiteSection(
        "Scores by number of workers",
        [
            "Beside one worker of the same strategy; test scores are those of the best validation epoch. ",
            *(
                Strong(f"Epochs to within {workers.NEAR}"),
                ": the first whose validation score is that near to the best ",
            ),
            "one of one worker; median over seeds, — where a seed never is.",
        ],
        workers.workers,
        SuiteFigure(workers.curves, figures.draw_curves),
    ),
    "speedup": SuiteSection(
        "Speed-up by number of workers",
        [
            *(
                Code("measured"),
                " rows ran here, as far as there are cores. ",
                Code("model"),
                " rows did not: they are ",
            ),
            "computed from what one worker measured (compute, pull, push, the server's own time, bytes of a step), for an "
            "epoch over the published graph's 1.2 · 10^8 targets, each further worker on a machine of its own; messages "
            "wait for each other at the server. ",
            *(
                Code("no network"),
                " is the model that was checked against the measured rows; a network's bandwidth of ",
            ),
            *(
                "each machine's link and latency one way are ",
                Strong("assumed"),
                ", as the paper does not give its own, ",
            ),
            "and nothing is fitted to its 78. Measured workers share this machine: ",
            *(Strong("beside others"), " is how many times as long a worker computes on a target, or exchanges in a "),
            *("step, as one alone, by the workers' own clocks, and ", Strong("error with both"), " the model's error "),
            "once it knows that.",
        ],
        speedup.speedup,
        SuiteFigure(speedup.by_comparison, figures.draw_speedups),
    ),
    "inference": SuiteSection(
        "Inference of all nodes",
        [
            "(a) is the module that GraphInfer replaced, inference from GraphFeatures: each batch of targets from its own "
            "neighbourhoods. They are cut from the graph in memory, so that (a) reads no shards from disk and is faster "
            "than it was. (b) is the fastest peer in its fastest form: layer by layer over blocks, or over the whole "
            "graph at once. ",
            *(Strong("Once before"), ": what an engine does before it is asked, Map of GraphInfer, or a copy of the "),
            *(
                "features and the graph in its own form. ",
                Strong("First call"),
                ": the first of a process, which finds ",
            ),
            "its own files and caches cold; engines that map the features read them in it, those that copied them did so "
            "before. The kernel's page cache is never dropped. Memory is the whole process tree's, graph and framework "
            "included; pages of the graph's files that several open cells map count in equal parts. Calls and batches "
            "are those of one thread budget, so ",
            *(Strong("CPU s"), " over the time says how many cores worked."),
        ],
        inference.inference,
    ),
    "cost": SuiteSection(
        "Cost by size, and on the published graph",
        [
            "A unit of work takes s(V) seconds on V nodes. With V_m the largest measured size and b the least-squares "
            "slope of s over ln V, work U on V nodes takes ",
            *(
                Strong("T = U · (s(V_m) + max(b, 0) · ln(V / V_m))"),
                ". ",
                Strong("Error on the largest"),
                ": the same law ",
            ),
            "fitted on all smaller sizes, over what was measured there, minus 1. CPU hours are machine hours times the "
            "CPU seconds per second of the largest size. The last column leaves the growth out.",
        ],
        cost.cost,
        SuiteFigure(cost.panels, figures.draw_costs),
    ),
    "graphfeatures": SuiteSection(
        "GraphFeatures per second",
        [
            "Of the targets flattened in one call, reading, sampling, encoding and writing included; on Ray also starting "
            "and stopping it. Bytes are those of the records: features in each as in the paper, or once a shard. ",
            *(
                Strong("The disk takes"),
                ": a plain sequential write of as many bytes, in the same process, fastest of ",
            ),
            *(
                "three, until the kernel has them, as shards are written; ",
                Strong("synced"),
                ": until the disk has them.",
            ),
        ],
        flattening.graphfeatures,
    ),
    "hubs": SuiteSection(
        "Balance on hubs",
        "In-edges that come to a reducer before they are sampled. Those of a node with more than the given number are "
        "spread over all reducers by a random suffix, sampled and brought together again; the result is the same.",
        hubs.hubs,
        SuiteFigure(hubs.measured, figures.draw_hubs),
    ),
    "sampling": SuiteSection(
        "Sampling alone",
        [
            "An epoch's batches, without features and compute. Engines draw from the same graph for the same targets; ",
            *(
                Strong("edges"),
                " are those that each draws. AGL draws once for each node of a batch; DGL draws for each ",
            ),
            "layer anew, so that some edges of its targets count twice: targets per second compare the time alone.",
        ],
        sampling.sampling,
    ),
}

MEASURES = {
    "memory train": Measure(partial(cost.largest_memory, stage="train")),
    "flat rate": Measure(flattening.best_rates),
    "hub balance": Measure(hubs.balances),
    "edges sampled": Measure(fair=sampling.sampling_range),
    "worker gap": Measure(workers.largest_distance),
    "speed-up": Measure(speedup.most_measured),
    "speed-up model": Measure(speedup.modelled),
    **{
        f"inference {name}": Measure(
            partial(inference.against, rival=inference.replaced, quantity=quantity),
            partial(inference.against, rival=inference.best_peer, quantity=quantity),
        )
        for name, quantity in (("time", seconds), ("cpu", inference.cpu), ("memory", inference.peak))
    },
    **{
        f"hours {stage}": Measure(
            partial(cost.hours_of, stage=stage, ours=True), partial(cost.hours_of, stage=stage, ours=False)
        )
        for stage in ("flatten", "train", "infer")
    },
}
