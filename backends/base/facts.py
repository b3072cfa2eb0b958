"""Sizes of SpMMs and dense layers, as records hold them."""

from typing import Any

from backends.model import ModelSpec, dense_multiplications
from datasets.csr import Csr


def spmm_facts(operand: dict[str, Any]) -> dict[str, Any]:
    """Sizes of one SpMM; ``operand`` has its name, its ``csr``, its width and how often it runs."""
    csr: Csr = operand["csr"]
    counts = {"nnz": csr.nnz, "rows": csr.shape[0], "columns": csr.shape[1]}
    return {"name": operand["name"], **counts, "width": operand["width"], "count": operand["count"]}


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
