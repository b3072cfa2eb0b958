"""Sections and measures of the full-batch engine's suites (Hetu-GNN): ranks and their balance, losses, orders."""

from harness.report.papers.blocksparse import losses, orders, ranks
from harness.report.suites.section import Measure, SuiteFigure, SuiteSection

SECTIONS = {
    "ranks": SuiteSection(
        "What each rank holds and receives",
        "Counted, not timed: edges of the ranks' slices, and the rows of others that arrive for one product. "
        "One process holds all edges.",
        ranks.ranks,
        terms={
            "imbalance": "the most edges of a rank over their mean: the slowest rank rules",
            "received": "rows that the slowest rank receives for one product, over all nodes; broadcast moves 1 - 1/p "
            "in 1D",
            "bytes": "largest slice of the matrix and the features, MiB",
        },
    ),
    "losses": SuiteSection(
        "Losses by epoch",
        "Validation losses without dropout, from the same parameters. The last column is the largest distance of a "
        "curve from plain PyTorch's, over the loss there.",
        losses.losses,
        SuiteFigure(losses.curves, losses.draw),
    ),
}
MEASURES = {
    "loss gap": Measure(losses.largest_gap),
    "times by order": Measure(orders.gain, orders.gain_of_peers),
}
