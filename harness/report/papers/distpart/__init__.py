"""Sections of the suites of partitioning (DGL's chapter on distributed graphs)."""

from harness.report.papers.distpart import effect, growth, jobs, quality
from harness.report.suites.section import Measure, SuiteSection

SECTIONS = {
    "assignments_total": SuiteSection(
        "Over all graphs and numbers of parts",
        "Each figure is a multiple of that of METIS in the same table: k-way by its Python package, or DGL's where "
        "several loads are balanced.",
        quality.totals,
        terms={
            "seconds": "geometric mean over the tables, and the slowest, without doubtful figures, which are counted",
            "cut, volume": "what the objective lowers: geometric mean and worst, without tables where one of both is 0",
            "memory": "what the calls need beyond what was resident before: geometric mean, and the most",
            "above the bound": "tables in which a part is heavier than was asked",
        },
    ),
    "assignments": SuiteSection(
        "Assignments of nodes to parts",
        "The call starts with the directed edges. The harness counts the quality of every engine's assignment itself, "
        "by one function; an edge belongs to its destination's part.",
        quality.assignments,
        terms={
            "cut": "directed edges between two parts, self loops left out, in percent of all",
            "to METIS": "as a multiple of METIS's, k-way, in the same table; of DGL's where several loads are balanced",
            "rows of others": "rows that parts need of other parts, each once per part",
            "replication": "rows in a part, its own and those of others, over its own: mean, and the worst part",
            "balance": "the largest load of a part over the mean, the worst of all loads that are balanced",
            "memory": "what the calls need beyond what was resident before, which holds the directed graph",
        },
    ),
    "jobs": SuiteSection(
        "From a graph to the files of its parts",
        "The call assigns all nodes and writes every part with HALO nodes, features and labels. The gate reads the "
        "files of a small graph back.",
        jobs.jobs,
        terms={
            "to DGL": "seconds of DGL's partition_graph over these, random assignments beside random ones",
            "memory": "what the jobs need beyond what was resident before, which holds the graph and its features",
        },
    ),
    "growth": SuiteSection(
        "The whole job by size of the graph",
        "The law is fitted on all sizes but the largest and tried on that one; then it is fitted on all. Memory of a "
        "larger graph is that of the largest one times the growth in nodes or in edges, whichever is more; bytes of "
        "files grow with the edges. Hours are those of a machine that holds all of it.",
        growth.growth,
        terms={
            "memory": "what the jobs need beyond what was resident before, which holds the graph and its features",
            "structure": "bytes of the files without the features, per edge",
        },
    ),
    "effect": SuiteSection(
        "Ranks on the parts of each assignment",
        "The same engine trains on the same ranks; the parts alone differ. Rows are predicted from the graph and "
        "counted as they arrive. Epochs are shown where every rank has a core.",
        effect.effect,
        terms={
            "rows predicted": "rows that parts need of other parts, each once per part, counted in the graph",
            "rows received": "rows that all ranks together receive in one product",
            "received": "bytes of rows and their gradients that all ranks together receive in one epoch",
            "ordering": "seconds of assigning all nodes and of renumbering the graph",
            "random / epoch": "epoch on the random assignment divided by this one, paired by process; ~ where the "
            "interval contains 1, so that the two were not told apart",
            "break-even": "epochs after which the seconds beyond those of the random assignment are won back; with ~ "
            "it comes from two epochs that were not told apart",
        },
    ),
    "effect_networks": SuiteSection(
        "Epochs over networks, modelled",
        "Each rank's slice is timed alone in one process, a look that says nothing about other processes; latency and "
        "bytes over bandwidth are added for its messages.",
        effect.networks,
        terms={"waiting": "seconds of messages that no computation hides, of the slowest rank"},
    ),
}
MEASURES: dict[str, Measure] = {}
