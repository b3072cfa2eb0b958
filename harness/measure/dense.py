"""Dense floor of an epoch: the least seconds that its dense products can take, whatever else an engine fuses with them.

Counted are the products that every implementation must do: of each layer its output, the gradient of each weight and,
except in the first layer, that of its input; rows that no labelled target depends on are left out, and the first
layer's may skip the zeros of the features. Bias, activation, loss, optimizer and all aggregation are not in it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from backends.kernels import dense, spmm
from backends.model import ModelSpec, dense_multiplications
from datasets.csr import Csr
from datasets.features import share_set
from datasets.graph import Graph
from harness.measure.best import queued_best, stable_best
from harness.measure.shared_values import best_of_processes

BLOCKS = (1 << 12, 1 << 14)  # rows whose operands stay in a cache: an engine may fuse a product with what comes before
LARGEST = 1 << 24  # numbers in an operand that is timed
COUNTED = 1 << 22  # numbers of the features that are read to count the zeros, in rows that are spread evenly
EDGES = 1 << 22  # that are followed at once
SPARSE = 0.25  # share of set features up to which the sparse form of the first product is tried
SMALL = 1 << 22  # multiply-adds up to which one thread may be faster than several
Call = Callable[[], object]


@dataclass(frozen=True)
class Product:
    """The products of one layer, forward and backward: ``inputs`` [rows, depth] times weights [depth, columns].

    sage has two ``inputs`` of equal depth, the own and the aggregated rows; ``rows`` are those of the second where
    fewer have a neighbour. ``density`` is the share of the inputs that is not zero.
    """

    rows: int
    depth: int
    columns: int
    own_rows: int = 0
    needs_input_gradient: bool = True
    density: float = 1.0

    @property
    def flops(self) -> int:
        """Operations, two per multiply-add; zeros of the inputs count nothing."""
        passes = 3 if self.needs_input_gradient else 2
        return int(2 * passes * (self.rows + self.own_rows) * self.depth * self.columns * self.density)


@dataclass(frozen=True)
class DenseFloor:
    """Least seconds of an epoch's dense products on this machine, and their operations."""

    seconds: float
    flops: int


def dense_floor(
    spec: ModelSpec, graph: Graph, targets: NDArray[np.integer], threads: int, device: str = "cpu"
) -> DenseFloor:
    """Sum the least times of the dense products of one epoch over ``graph`` with its loss on ``targets``; float32.

    Each product is the fastest of several forms, over blocks of rows that fit caches and over all rows, in several
    processes of the group.
    """
    torch.set_num_threads(threads)
    seconds, flops = 0.0, 0
    for product in products(spec, graph, targets):
        key = f"dense floor, {product}, {threads} threads" if device == "cpu" else f"dense floor, {product}, {device}"
        seconds += best_of_processes(key, partial(least_seconds, product, threads, device), min)
        flops += product.flops
    return DenseFloor(seconds, flops)


def products(spec: ModelSpec, graph: Graph, targets: NDArray[np.integer]) -> list[Product]:
    """The dense products of an epoch, first layer first, a linear head last.

    With ``fanouts`` any neighbour may be left out, so that only the targets' own rows are counted.
    """
    needed = np.zeros(graph.nodes, dtype=bool)
    needed[targets] = True
    if spec.propagates:
        return _of_propagations(spec, len(targets), _density(graph, needed))
    layers = [Product(len(targets), spec.width_out(spec.layers - 1), spec.classes)] if spec.head == "linear" else []
    for layer in reversed(range(spec.layers)):
        rows, aggregated = int(needed.sum()), int((needed & (graph.csr.in_degrees > 0)).sum())
        share = _density(graph, needed) if layer == 0 else 1.0
        layers.insert(0, _of_layer(spec, layer, rows, aggregated, share))
        if not spec.fanouts:
            needed = _with_neighbours(graph.csr, needed)
    return layers


def _with_neighbours(csr: Csr, nodes: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Nodes and the sources of their in-edges."""
    together = nodes.copy()
    for begin in range(0, csr.nnz, EDGES):
        edges = slice(begin, begin + EDGES)
        together[csr.indices[edges][nodes[csr.destinations[edges]]]] = True
    return together


def _of_propagations(spec: ModelSpec, rows: int, density: float) -> list[Product]:
    """The products of the targets' rows alone: a product of sums is the sum of products, so either may come first."""
    head = [Product(rows, spec.width_out(spec.layers - 1), spec.classes)] if spec.head == "linear" else []
    multiplications = dense_multiplications(spec)
    return [
        Product(rows, depth, columns, 0, has_gradient, 1.0 if has_gradient else density)
        for depth, columns, has_gradient in multiplications
    ] + head


def _of_layer(spec: ModelSpec, layer: int, rows: int, aggregated: int, density: float) -> Product:
    columns = spec.width_out(layer) * spec.heads_of(layer)
    own_rows, rows = (rows, aggregated) if spec.name == "sage" else (0, rows)
    # Aggregated features have fewer zeros, but the sum of products is the product of the sum: either may come first.
    return Product(rows, spec.width_in(layer), columns, own_rows, layer > 0, density)


def _density(graph: Graph, needed: NDArray[np.bool_]) -> float:
    """Share of the needed rows' features that are not zero, from evenly spread rows of many."""
    nodes = np.flatnonzero(needed)
    if graph.features is None or not len(nodes) or not graph.width:
        return 1.0
    counted = max(1, COUNTED // graph.width)
    return share_set(graph.features[nodes[:: -(-len(nodes) // counted)]])


def least_seconds(product: Product, threads: int, device: str = "cpu") -> float:
    """Least seconds of one layer's products, of all blocks of rows and forms; 0 without rows or columns."""
    rows = max(product.rows, product.own_rows)
    if min(rows, product.depth, product.columns) == 0:
        return 0.0
    largest = max(1, LARGEST // (2 * max(product.depth, product.columns)))
    sizes = {min(rows, largest, size) for size in (*BLOCKS, rows)}
    try:
        return min(_whole_seconds(product, size, threads, device) for size in sorted(sizes))
    finally:
        torch.set_num_threads(threads)


def _whole_seconds(product: Product, size: int, threads: int, device: str) -> float:
    """Seconds of all rows, from those of the first ``size``."""
    rand = partial(torch.rand, device=device)
    x = rand(size, product.depth)
    if product.density < 1:
        x *= torch.rand_like(x) < product.density
    inputs = [(x, rows / size) for rows in (product.rows, product.own_rows) if rows]
    weight, gradient = rand(product.depth, product.columns), rand(size, product.columns)
    separate = sum(share * _pass_seconds(product, x, weight, gradient, threads) for x, share in inputs)
    if len(inputs) < 2:
        return separate
    # One product with both inputs side by side, over the rows that have both.
    both, rest = min(product.rows, product.own_rows) / size, abs(product.rows - product.own_rows) / size
    pair = _pass_seconds(product, torch.cat([x, x], 1), torch.cat([weight, weight]), gradient, threads)
    return min(separate, both * pair + rest * separate / sum(share for _, share in inputs))


def _pass_seconds(product: Product, x: Tensor, weight: Tensor, gradient: Tensor, threads: int) -> float:
    """Least seconds of a product, of its weight's gradient and, where it is needed, of its input's."""
    passes = [forward_forms(x, weight), weight_gradient_forms(x, gradient)]
    if product.needs_input_gradient:
        passes.append(forward_forms(gradient, weight.T.contiguous()))
    elif product.density < SPARSE:
        csr = _csr_of(x)
        values = x[x != 0]
        passes[0] = [*passes[0], lambda: spmm(csr, weight, values)]
        transpose, order = csr.transpose
        turned = values[torch.from_numpy(np.ascontiguousarray(order)).to(x.device, torch.long)]
        passes[1] = [*passes[1], lambda: spmm(transpose, gradient, turned)]
    small = x.numel() * weight.shape[1] <= SMALL and x.device.type == "cpu"
    best = partial(queued_best, synchronize=partial(torch.cuda.synchronize, x.device)) if x.is_cuda else stable_best
    with torch.no_grad():
        separate = sum(best(_on_threads(forms, small, threads)) for forms in passes)
    together = best([_layer_call(x, weight, gradient, product.needs_input_gradient)])
    return min(separate, together)


def forward_forms(x: Tensor, weight: Tensor) -> list[Call]:
    """Forms of ``x @ weight``: both layouts of the weight and of the output, and our kernel."""
    turned, out = weight.T.contiguous(), x.new_empty(x.shape[0], weight.shape[1])
    out_turned = x.new_empty(weight.shape[1], x.shape[0])
    return [
        lambda: torch.mm(x, weight, out=out),
        lambda: torch.mm(x, turned.T, out=out),
        lambda: torch.mm(turned, x.T, out=out_turned),
        lambda: dense(x, weight),
    ]


def weight_gradient_forms(x: Tensor, gradient: Tensor) -> list[Call]:
    """Forms of ``x.T @ gradient``: both layouts of the result."""
    out, out_turned = (
        x.new_empty(shape) for shape in ((x.shape[1], gradient.shape[1]), (gradient.shape[1], x.shape[1]))
    )
    return [lambda: torch.mm(x.T, gradient, out=out), lambda: torch.mm(gradient.T, x, out=out_turned)]


def _layer_call(x: Tensor, weight: Tensor, gradient: Tensor, needs_input_gradient: bool) -> Call:
    """A call of our fused layer, forward and backward."""
    x, weight = x.clone().requires_grad_(needs_input_gradient), weight.clone().requires_grad_()
    inputs = (x, weight) if needs_input_gradient else (weight,)
    return lambda: torch.autograd.grad(dense(x, weight), inputs, gradient)


def _on_threads(forms: list[Call], small: bool, threads: int) -> Iterator[Call]:
    """Set the number of threads before each form; small products also run on one."""
    for count in (1, threads) if small and threads > 1 else (threads,):
        for form in forms:
            torch.set_num_threads(count)
            yield form
    torch.set_num_threads(threads)


def _csr_of(x: Tensor) -> Csr:
    rows, columns = np.nonzero(x.cpu().numpy())
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(x)))])
    return Csr(indptr.astype(np.int32), columns.astype(np.int32), (x.shape[0], x.shape[1]))
