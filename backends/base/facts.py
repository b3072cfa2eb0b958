"""Sizes of SpMMs and dense layers, as records hold them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from backends.model import ModelSpec, dense_multiplications
from datasets.csr import Csr


def spmm_facts(operand: dict[str, Any]) -> dict[str, Any]:
    """Sizes of one SpMM; ``operand`` has its name, its ``csr``, its width and how often it runs."""
    csr: Csr = operand["csr"]
    counts = {"nnz": csr.nnz, "rows": csr.shape[0], "columns": csr.shape[1]}
    return {"name": operand["name"], **counts, "width": operand["width"], "count": operand["count"]}


@dataclass(frozen=True)
class StepSizes:
    """Sizes of one step: edges, rows and columns of its SpMMs by name and width, and operations of its dense layers."""

    products: dict[tuple[str, int], tuple[int, int, int]]
    dense_flops: int

    @property
    def edges(self) -> int:
        """Edges of all SpMMs."""
        return sum(nnz for nnz, _, _ in self.products.values())


def epoch_facts(steps: Sequence[StepSizes], batches: int) -> dict[str, Any]:
    """Facts of an epoch of ``batches`` steps by the sizes of some: the mean of each SpMM, and how often it runs."""
    drawn: dict[tuple[str, int], list[tuple[int, int, int]]] = {}
    for step in steps:
        for product, sizes in step.products.items():
            drawn.setdefault(product, []).append(sizes)
    products = []
    for (name, width), sizes_of_steps in drawn.items():
        nnz, rows, columns = (round(sum(sizes) / len(sizes)) for sizes in zip(*sizes_of_steps, strict=True))
        count = max(1, round(batches * len(sizes_of_steps) / len(steps)))
        products.append({"name": name, "nnz": nnz, "rows": rows, "columns": columns, "width": width, "count": count})
    flops = sum(step.dense_flops for step in steps) * batches // len(steps)
    return {"spmm": products, "dense_flops": flops}


def usual_step(steps: Sequence[StepSizes]) -> int:
    """Number of the step with the most edges among those with at most the mean, so that bounds from it are bounds."""
    edges = [step.edges for step in steps]
    small = [number for number, count in enumerate(edges) if count * len(edges) <= sum(edges)]
    return max(small, key=lambda number: edges[number])


def dense_flops(spec: ModelSpec, layer: int, aggregated: int, own: int) -> int:
    """Operations of a layer's dense products in one step, two per multiply-add.

    A layer transforms ``aggregated`` rows, before or after it aggregates, and sage also its ``own`` rows. Each row
    counts forward, for the weight's gradient and, except in the first layer, for the input's gradient.
    """
    each = 2 * spec.width_in(layer) * spec.width_out(layer) * spec.heads_of(layer)
    rows = aggregated + (own if spec.name == "sage" else 0)
    return each * rows * (2 if layer == 0 else 3)


def propagation_flops(spec: ModelSpec, rows: int) -> list[int]:
    """Operations of each dense product of a model of propagations in one step, counted as in ``dense_flops``."""
    products = dense_multiplications(spec)
    return [2 * depth * columns * rows * (3 if has_gradient else 2) for depth, columns, has_gradient in products]
