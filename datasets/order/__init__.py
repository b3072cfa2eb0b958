"""Vertex orders: renumberings of a data set's nodes, open to every engine.

An order is an array ``order`` of the old nodes in their new sequence: ``order[new] = old``. The function of an order
returns that array, or a ``Renumbering`` where the order is that of a partition, whose parts begin at known nodes.
"""

import importlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from datasets.csr import Csr
from datasets.graph import Graph
from datasets.options import check_options, check_types, unknown_name
from datasets.plugins import Plugin, with_plugins

Order = NDArray[np.int64]


class Renumbering(NamedTuple):
    """An order int64 [nodes], and the first nodes of the parts that it puts one after the other, int64 [parts + 1].

    ``import_seconds`` went into importing an engine; they are no cost of the order.
    """

    order: Order
    part_bounds: Order | None = None
    import_seconds: float = 0.0


ORDERS = {
    "none": "datasets.order.basic:none",
    "random": "datasets.order.basic:random",
    "degree": "datasets.order.basic:degree",
    "rcm": "datasets.order.rcm:rcm",
    "metis": "datasets.order.metis:metis",
    "slashburn": "datasets.order.slashburn:slashburn",
    "blockwise": "datasets.order.blockwise:blockwise",
}


def order_names() -> tuple[str, ...]:
    """Names of all orders: ours, then those of plug-ins; raises PluginError where two have the same."""
    return tuple(with_plugins("orders", ORDERS))


def order_function(name: str) -> Callable[..., Order | Renumbering]:
    """Import the function of an order; raises ValueError for an unknown name, PluginError for a broken plug-in."""
    known = with_plugins("orders", ORDERS)
    if name not in known:
        raise ValueError(unknown_name("order", name, known))
    target = known[name]
    if isinstance(target, Plugin):
        function: Callable[..., Order | Renumbering] = target.load()
    else:
        module, _, attribute = target.partition(":")
        function = getattr(importlib.import_module(module), attribute)
    return function


def permutation_of(
    name: str, csr: Csr, options: Mapping[str, Any] | None = None, seed: int = 0, inductive: bool = False
) -> Order:
    """Return the order of ``renumbering_of`` alone: int64 [nodes], old node at each new position."""
    return renumbering_of(name, csr, options, seed, inductive).order


def renumbering_of(
    name: str, csr: Csr, options: Mapping[str, Any] | None = None, seed: int = 0, inductive: bool = False
) -> Renumbering:
    """Compute the order ``name`` of a square adjacency matrix, with the bounds of its parts where it has some.

    ``options`` are the keyword parameters of the order's function; ``seed`` is for orders that draw, unless their
    options name one; orders that take ``inductive`` are told whether the data set is. Raises ValueError for unknown
    names and options, for values of other types, for a matrix that is not square, and for a result that is not a
    permutation, OrderRefused for a graph that cannot have the order.
    """
    compute = order_function(name)
    if csr.shape[0] != csr.shape[1]:
        raise ValueError(f"a matrix of shape {csr.shape} has no vertex order: give a square adjacency matrix")
    arguments = dict(options or {})
    parameters = inspect.signature(compute).parameters
    allowed = [parameter for parameter in parameters if parameter not in ("csr", "inductive")]
    check_options(f"option of order {name}", arguments, allowed)
    check_types(arguments, {key: parameters[key].annotation for key in arguments}, "order.options")
    if "seed" in allowed:
        arguments.setdefault("seed", seed)
    if "inductive" in parameters:
        arguments["inductive"] = inductive
    computed = compute(csr, **arguments)
    renumbering = computed if isinstance(computed, Renumbering) else Renumbering(computed)
    return renumbering._replace(order=check_permutation(renumbering.order, csr.shape[0]))


def check_permutation(order: NDArray[np.integer], nodes: int) -> Order:
    """Return ``order`` as int64; raises ValueError unless it names each of ``nodes`` nodes once."""
    order = np.asarray(order)
    if order.shape != (nodes,) or not np.issubdtype(order.dtype, np.integer):
        raise ValueError(f"an order of {nodes} nodes is {nodes} integers, not {order.dtype} of shape {order.shape}")
    seen = np.zeros(nodes, dtype=bool)
    seen[order[(order >= 0) & (order < nodes)]] = True
    if not seen.all():
        missing = int(np.flatnonzero(~seen)[0])
        raise ValueError(f"not a permutation of {nodes} nodes: {missing} is missing, name 0 to {nodes - 1} once each")
    return order.astype(np.int64)


def apply_order(graph: Graph, order: NDArray[np.integer], part_bounds: Order | None = None) -> Graph:
    """Renumber a graph with its node and edge arrays; edge ids and original node ids stay."""
    return replace(graph.subgraph(check_permutation(order, graph.nodes)), part_bounds=part_bounds)


def undo(predictions: NDArray[Any], order: NDArray[np.integer]) -> NDArray[Any]:
    """Return the rows of a renumbered graph in the original numbering."""
    original = np.empty_like(predictions)
    original[check_permutation(order, len(predictions))] = predictions
    return original
