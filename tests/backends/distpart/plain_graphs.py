"""Graphs of one type from their edges, and the task of dividing one."""

import numpy as np

from backends.contract import PartitionTask
from datasets.csr import csr_from_edges
from datasets.graph import Graph


def graph_of(source, destination, nodes):
    return Graph("edges", csr_from_edges(np.array(source, np.int64), np.array(destination, np.int64), (nodes, nodes)))


def grid(side, dimensions=2):
    """A square grid or a cube, whose best cuts are straight."""
    nodes = side**dimensions
    axes = [np.moveaxis(np.arange(nodes).reshape((side,) * dimensions), axis, 0) for axis in range(dimensions)]
    source = np.concatenate([places[:-1].ravel() for places in axes])
    destination = np.concatenate([places[1:].ravel() for places in axes])
    return graph_of(source, destination, nodes)


def star(leaves):
    return graph_of(np.arange(1, leaves + 1), np.zeros(leaves), leaves + 1)


def task_of(graph, parts, weights=None, imbalance=1.03, seed=0, threads=1):
    weights = np.ones((graph.nodes, 1), dtype=np.int64) if weights is None else weights
    return PartitionTask(parts, weights, imbalance, "cut", seed, threads)
