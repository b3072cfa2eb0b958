"""What the ranks of a task compute, and the slice of the graph that each of them gets."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from backends.base.layered import LayerMatrix
from backends.base.layered_trainer import LayeredTrainer
from backends.blocksparse.config import BlocksparseConfig
from backends.blocksparse.layout import RankLayout
from backends.blocksparse.slices import Cut, RankSlice, cut
from backends.blocksparse.worker import RankTask
from backends.contract import Unsupported
from datasets.adjacency import adjacency_of
from datasets.graph import Graph
from datasets.order.bounds import BOUNDS


@dataclass(frozen=True)
class CutTask:
    """The task of all ranks, where the graph is cut, and the slices."""

    task: RankTask
    cut: Cut
    slices: list[RankSlice]


def pieces_of(
    trainer: LayeredTrainer,
    graph: Graph,
    config: BlocksparseConfig,
    layout: RankLayout,
    only: int | None = None,
    trains: bool = True,
) -> CutTask:
    """Cut a graph for ranks that compute what ``trainer`` would; slices of all of them, or of ``only`` one.

    A graph that is not trained on (``trains``) needs no products of the backward pass. Raises Unsupported as
    ``check_blocks`` does.
    """
    spec, training = trainer.spec, trainer.training
    check_blocks(layout, graph, config.bounds)
    adjacency = adjacency_of(graph, spec.name, training.dtype)
    steps = [step for _, step in trainer.steps([LayerMatrix(adjacency.csr)] * spec.layers)]
    trains = trains and not trainer.forward_only
    products = tuple((step.width, step.has_backward and trains) for step in steps)
    task = RankTask(layout, spec, training, products, config, trainer.sparse_input)
    bounds = (
        _part_bounds(graph, layout) if config.bounds == "parts" else BOUNDS[config.bounds](adjacency.csr, layout.blocks)
    )
    mean = training.dtype if spec.name == "sage" else None
    return CutTask(task, *cut(graph, adjacency, layout, bounds, config.exchange, mean, only))


def check_blocks(layout: RankLayout, graph: Graph, bounds: str) -> None:
    """Raise Unsupported for more row blocks than nodes, or for ``bounds=parts`` without a part for each block."""
    try:
        layout.check_rows(graph.nodes)
    except ValueError as error:
        raise Unsupported(str(error)) from error
    if bounds == "parts":
        _part_bounds(graph, layout)


def _part_bounds(graph: Graph, layout: RankLayout) -> NDArray[np.int64]:
    """First rows of the graph's own parts."""
    if graph.part_bounds is None and graph.inductive:
        raise Unsupported(f"data set {graph.name} is inductive, and has no parts: give backend.bounds=edges or rows")
    if graph.part_bounds is None:
        raise Unsupported(
            "backend.bounds=parts needs a graph in the order of its parts: give order=parts, order=blockwise or "
            "dataset=partition"
        )
    parts = len(graph.part_bounds) - 1
    if parts != layout.blocks:
        raise Unsupported(
            f"backend.bounds=parts: the graph has {parts} parts for {layout.blocks} row blocks: give "
            f"backend.ranks={parts} backend.replication=1, or a graph of {layout.blocks} parts"
        )
    return graph.part_bounds
