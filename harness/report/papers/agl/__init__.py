"""Sections and measures of AGL's suites (Zhang et al., VLDB 2020): GraphFlat, GraphTrainer, GraphInfer."""

from functools import partial

from harness.report.papers.agl import (
    breakeven,
    claims,
    cost,
    figures,
    flattening,
    hubs,
    ideas,
    inference,
    pipeline,
    sampling,
    speedup,
    workers,
)
from harness.report.suites.section import Measure, SuiteFigure, SuiteSection

SECTIONS = {
    "ideas": SuiteSection(
        "The paper's ideas one by one",
        "How many times as fast as an epoch of the ablation base, which has none of the ideas, over the same batches "
        "in memory.",
        ideas.ideas,
        terms={
            "all": "all three ideas and the pipeline",
            "default": "the configuration without ablations; below 3 threads it has no pipeline",
        },
    ),
    "pipeline": SuiteSection(
        "The pipeline",
        "How many times as fast as the epoch without the pipeline, which has all other ideas. Loaders are threads that "
        "prepare batches while the cell's threads compute, so a cell with a pipeline keeps more cores busy than its "
        "threads where the machine has them. Cold shards were dropped from the page cache before every epoch.",
        pipeline.pipeline,
    ),
    "breakeven": SuiteSection(
        "Preparation, and when it has paid off",
        "Where only a part of the targets was flattened, seconds and bytes are scaled to all of them.",
        breakeven.breakeven,
        terms={
            "break-even epochs": "seconds by which our preparation takes longer than the fastest peer's, divided by "
            "the seconds that we save in every epoch. never: our epochs are no faster. ahead for: our preparation is "
            "shorter but our epochs are slower, so the peer overtakes after so many epochs. ~: the epochs were not "
            "told apart",
        },
    ),
    "workers": SuiteSection(
        "Scores by number of workers",
        "Every row is compared with one worker of the same strategy. Test scores are those of the epoch with the best "
        "validation score.",
        workers.workers,
        SuiteFigure(workers.curves, figures.draw_curves),
        terms={
            f"epochs to within {workers.NEAR} of it": "first epoch whose validation score is that near to the best one "
            "of one worker, median over seeds; — where one seed never gets there",
        },
    ),
    "speedup": SuiteSection(
        "Speed-up by number of workers",
        "Rows up to the number of cores were measured here. The others are predicted by a model from what one worker "
        "measured: seconds of compute, pull, push and of the server, and bytes of a step. They are for an epoch over "
        "the published graph's 1.2 · 10^8 targets with each further worker on a machine of its own; messages queue at "
        "the server. Nothing is fitted to the published speed-up of 78.",
        speedup.speedup,
        SuiteFigure(speedup.by_comparison, figures.draw_speedups),
        terms={
            "model, no network": "the model as it was checked against the measured rows",
            "model with a network": "bandwidth of each machine's link and latency one way are assumed, because the "
            "paper gives neither",
            "computing beside others, exchanging beside others": "measured workers share this machine: how many times "
            "as long a worker computes on a target, or exchanges in a step, as one worker alone, by their own clocks",
            "error with both": "error of the model when it takes both slow-downs into account",
        },
    ),
    "inference": SuiteSection(
        "Inference of all nodes",
        "(a) is the module that GraphInfer replaced, inference from GraphFeatures: each batch of targets is computed "
        "from its own neighbourhoods. Rows with source=graphfeature read them from shards as that module did, the "
        "others cut them from the graph in memory, which is faster. (b) is the fastest peer in its fastest form: layer "
        "by layer over blocks, or over the whole graph at once. Memory is that of the whole process tree with graph "
        "and framework; pages of the graph's files that several open cells map are divided among them. All engines get "
        "the same threads.",
        inference.inference,
        terms={
            "once before": "what an engine does before the first call: the Map phase of GraphInfer, or a copy of the "
            "features and of the graph in its own form",
            "first call, cold": "the first call of a process. Engines that map the features read them here, engines "
            "that copied them did so before. The kernel's page cache is not dropped",
            "CPU s": "CPU seconds of a call; divided by its time, the number of busy cores",
        },
    ),
    "cost": SuiteSection(
        "Cost by size, and on the published graph",
        "A unit of work takes s(V) seconds on a graph of V nodes. With V_m the largest measured size and b the "
        "least-squares slope of s over ln V, U units on V nodes take T = U · (s(V_m) + max(b, 0) · ln(V / V_m)).",
        cost.cost,
        SuiteFigure(cost.panels, figures.draw_costs),
        terms={
            "error on the largest": "prediction of the law fitted on all smaller sizes, divided by what was measured "
            "on the largest, minus 1. Beyond 20 % either way nothing is extrapolated",
            "suite in parentheses": "a peer's form that another suite measured on the same graph and model: a claim's "
            "fair baseline is the fastest form of all",
            "CPU hours": "machine hours times the CPU seconds per second on the largest size",
            "CPU hours if a unit stays as dear": "the same without growth: b = 0",
        },
    ),
    "graphfeatures": SuiteSection(
        "GraphFeatures per second",
        "One call reads, samples, encodes and writes its targets; on Ray it also starts and stops the cluster. Bytes "
        "are those of the records, with the features in each record as in the paper, or once a shard.",
        flattening.graphfeatures,
        terms={
            "the disk takes": "a sequential write of as many bytes by the same process, the fastest of three, until "
            "the kernel has accepted them; shards are written in the same way",
            "synced": "the same until the bytes are on the disk",
        },
    ),
    "hubs": SuiteSection(
        "Balance on hubs",
        "Load of a reducer: the in-edges that it receives before sampling. In-edges of nodes with more than the given "
        "number are spread over all reducers by a random suffix, sampled there and merged; the result is the same.",
        hubs.hubs,
        SuiteFigure(hubs.measured, figures.draw_hubs),
    ),
    "sampling": SuiteSection(
        "Sampling alone",
        "Sampling of an epoch's batches, without features and compute. All engines sample for the same targets of the "
        "same graph. AGL samples once for each node of a batch; DGL samples for each layer anew and counts some edges "
        "of its targets twice, so only targets per second compare the time alone.",
        sampling.sampling,
        terms={"edges/s": "edges that the engine itself samples, per second"},
    ),
}

MEASURES = {
    "partition gain": Measure(
        partial(ideas.partition_gains, unpartitioned="scattered"),
        partial(ideas.partition_gains, unpartitioned="serial"),
    ),
    "memory train": Measure(partial(claims.largest_memory, stage="train")),
    "flat rate": Measure(flattening.best_rates),
    "hub balance": Measure(hubs.balances),
    "edges sampled": Measure(fair=sampling.sampling_range),
    "worker gap": Measure(workers.largest_distance),
    "speed-up": Measure(speedup.most_measured),
    "speed-up model": Measure(speedup.modelled),
    "inference time": Measure(
        partial(inference.time_against, beside=inference.replaced),
        partial(inference.time_against, beside=inference.best_peer),
    ),
    **{
        f"inference {name}": Measure(
            partial(inference.against, beside=inference.replaced, quantity=quantity),
            partial(inference.against, beside=inference.best_peer, quantity=quantity),
        )
        for name, quantity in (("cpu", inference.cpu), ("memory", inference.peak))
    },
    **{
        f"hours {stage}": Measure(
            partial(claims.hours_of, stage=stage, ours=True), partial(claims.hours_of, stage=stage, ours=False)
        )
        for stage in ("flatten", "train", "infer")
    },
}
