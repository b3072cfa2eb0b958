"""Vectorisation (AGL, section 3.3.1): the layer matrices of a model from a neighbourhood, with loops and weights."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from backends.agl.flat.encoded_records import EncodedRecords
from backends.agl.flat.sampling_strategy import SamplingStrategy
from backends.base.layered import LayerMatrix
from backends.base.sparse_rows import Rows
from backends.kernels import Neighbourhood, layer_blocks
from backends.kernels.graphfeatures import MergedRecords
from backends.kernels.loops import with_self_loops
from backends.model import ModelSpec
from datasets.adjacency import SELF_LOOP_MODELS
from datasets.csr import Csr

Floats = NDArray[np.floating[Any]]


def matrices(
    neighbourhood: Neighbourhood,
    model: str,
    layers: int,
    form: str,
    scale: Floats | None = None,
    edge_weights: Floats | None = None,
) -> list[LayerMatrix]:
    """Return each layer's matrix, first layer first: self loops for gcn and gat, gcn's symmetric weights.

    ``scale`` [nodes of the neighbourhood] is ``D^-1/2`` of the whole graph for gcn. The neighbourhood's ``positions``
    index ``edge_weights`` (``None``: all 1). Self loops are added after sampling, so that every node has its own.
    """
    blocks = layer_blocks(neighbourhood, layers, form)
    return [_matrix(block.csr, block.positions, model, scale, edge_weights) for block in blocks]


def matrices_of_records(
    records: EncodedRecords, spec: ModelSpec, strategy: SamplingStrategy, weighted: bool, form: str
) -> tuple[MergedRecords, Rows, list[LayerMatrix]]:
    """Merge records; return them, their nodes' features and each layer's matrix; ``weighted``: edges have weights."""
    gcn = spec.name == "gcn"
    merged, features = records.merge(
        strategy.fanouts,
        apart=strategy.scope == "target",
        needed=form == "tight",
        degrees=("weighted_degrees" if weighted else "degrees") if gcn else None,
        edge_weights=gcn and weighted,
    )
    scale = None if merged.degrees is None else inverse_sqrt(1.0 + merged.degrees)
    return merged, features, matrices(merged.neighbourhood, spec.name, spec.layers, form, scale, merged.edge_weights)


def _matrix(
    csr: Csr, positions: NDArray[np.int64] | None, model: str, scale: Floats | None, edge_weights: Floats | None
) -> LayerMatrix:
    if model not in SELF_LOOP_MODELS:
        return LayerMatrix(csr)
    if model != "gcn":
        return LayerMatrix(with_self_loops(csr)[0])
    assert scale is not None
    looped, weight = with_self_loops(csr, scale[: csr.shape[1]], edge_weights, positions)
    assert weight is not None
    return LayerMatrix(looped, torch.from_numpy(weight))


def inverse_sqrt(degrees: Floats) -> Floats:
    """``d^-1/2``, 0 where d is not positive."""
    with np.errstate(divide="ignore", invalid="ignore"):
        scale: Floats = np.where(degrees > 0, np.asarray(degrees, dtype=np.float64) ** -0.5, 0.0)
    return scale
