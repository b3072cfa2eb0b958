"""Sections and measures of the suites of the full-batch engine (Hetu-GNN), by what their modules read."""

from harness.report.papers.blocksparse import forms, losses, orders, phases, ranks, scale, thresholds
from harness.report.suites.section import Measure, SuiteFigure, SuiteSection

SECTIONS = {
    "ranks": SuiteSection(
        "What each rank holds and receives",
        "Counted, not timed: edges of the ranks' slices, and the rows of others that arrive for one product. "
        "One process holds all edges.",
        ranks.ranks,
        terms={
            "imbalance": "the most edges of a rank over their mean: the slowest rank rules",
            "received": "rows that the slowest rank receives for one product, over its rows; broadcast moves 1 - 1/p "
            "in 1D",
            "bytes": "largest slice of the matrix and the features, MiB",
        },
    ),
    "phases": SuiteSection(
        "Where the ranks' seconds go",
        "One forward and backward pass of the slowest rank, after the timed epochs.",
        phases.phases,
        terms={
            "aggregate": "products with the matrix, with what is fused into them, s",
            "messages": "seconds from the start of a message to its end",
            "exposed": "those of them in which the rank did nothing else",
        },
    ),
    "scale": SuiteSection(
        "Modelled epochs on more ranks",
        "A model, no measurement: each rank's own slice is timed here, one after the other, and a network's seconds "
        "are added. At every message ranks wait for the slowest. The one process beside it was measured.",
        scale.scale,
        SuiteFigure(scale.speedups, scale.draw),
        terms={"received": "rows and gradients of other ranks that the rank with the most receives in an epoch, MiB"},
    ),
    "validation": SuiteSection(
        "The model beside real ranks",
        "Real ranks on this machine's cores, their messages held back as the network would. The model times the same "
        "slices at the same time, without messages, and adds what the slower of the network and this machine's own "
        "messages takes. Model and ranks take turns; the row is the round with the median ratio.",
        scale.validation,
    ),
    "orders": SuiteSection(
        "What orders cost",
        "Seconds and memory of the order alone, and after how many calls it is won back from a random and from the "
        "given order, with ~ where the calls were not told apart. Our fastest row of each order.",
        orders.costs,
        terms={"peak memory": "bytes by which resident memory grew while the order was computed and applied"},
    ),
    "thresholds": SuiteSection(
        "Tiles by threshold",
        "One product, forward and backward, with squares of 32 x 32 that hold edges in at least that share of their "
        "cells multiplied densely, and without tiles. With auto a trial chose one of several densities, or none.",
        thresholds.thresholds,
        SuiteFigure(thresholds.sweeps, thresholds.draw),
        terms={
            "dense share": "edges in tiles over all edges, the larger one of forward and backward",
            "multiplications per edge": "those of the tiles' 1,024 cells and of the other edges, over all edges",
            "a tile pays from": "the density at which a tile would take as long as its edges do without tiles, from "
            "the seconds of both rows: above the threshold of its row, or above 100 %, such tiles lose",
            "hit rate": "of the modelled caches, where the cell asks for that",
        },
    ),
    "losses": SuiteSection(
        "Losses by epoch",
        "Validation losses without dropout, from the same parameters. The last column is the largest distance of a "
        "curve from plain PyTorch's, over the loss there; records hold six digits, so that it is told from 1e-5 on.",
        losses.losses,
        SuiteFigure(losses.curves, losses.draw),
    ),
}
MEASURES = {
    "loss gap": Measure(losses.largest_gap),
    "times by ranks": Measure(scale.modelled_gain),
    "model error": Measure(scale.largest_error),
    "times by forms": Measure(forms.gain),
    "times by order": Measure(orders.gain, orders.gain_of_peers),
}
