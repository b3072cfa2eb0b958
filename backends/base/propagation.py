"""Models that multiply by the matrix several times without a weight in between: sgc, lightgcn, ngcn.

All engines compute them in the same order of operations, each with its own product. What is linear multiplies the
narrower of input and output; instances of ngcn travel side by side, so that L of them take 2 (L - 1) products.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from backends.model import ModelSpec

Propagate = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Step:
    """One product with the matrix: the width of its rows, and whether its input has a gradient."""

    width: int
    has_backward: bool


def propagates_input(spec: ModelSpec, is_sparse: bool) -> bool:
    """Whether sgc and lightgcn multiply the features, which need no gradient, before their weight does."""
    return spec.name != "ngcn" and not is_sparse and spec.in_width <= 2 * spec.width_out(0)


def steps_of(spec: ModelSpec, is_sparse: bool) -> list[Step]:
    """The products of one pass, in their order."""
    if spec.name == "ngcn":
        widths = spec.hidden, spec.width_out(spec.layers - 1)
        return [Step(width * count, True) for width in widths for count in range(spec.layers - 1, 0, -1)]
    if propagates_input(spec, is_sparse):
        return [Step(spec.in_width, False)] * spec.layers
    return [Step(spec.width_out(0), True)] * spec.layers


def propagated(network: Any, features: Any, propagate: Propagate) -> Tensor:
    """Compute the output [rows, width] of a network of propagations from its input rows."""
    if network.spec.name == "ngcn":
        return _instances(network, features, propagate)
    if propagates_input(network.spec, not isinstance(features, Tensor) or features.layout is not torch.strided):
        return _with_bias(network, network.transform(_linear(network.spec, features, propagate), _weight(network, 0)))
    return _with_bias(network, _linear(network.spec, network.transform(features, _weight(network, 0)), propagate))


def _linear(spec: ModelSpec, x: Tensor, propagate: Propagate) -> Tensor:
    """``S^L x``, or for lightgcn the mean of ``S^k x`` over k = 0..L."""
    total = x
    for _ in range(spec.layers):
        x = propagate(x)
        total = total + x if spec.name == "lightgcn" else x
    return total / (spec.layers + 1) if spec.name == "lightgcn" else total


def _with_bias(network: Any, x: Tensor) -> Tensor:
    return x + network.parameter(0, "bias") if network.spec.name == "sgc" else x


def _instances(network: Any, features: Any, propagate: Propagate) -> Tensor:
    spec: ModelSpec = network.spec
    weights = torch.cat([_weight(network, k) for k in range(spec.layers)], 1)
    hidden = network.activation(_powers(network.transform(features, weights), spec.hidden, propagate))
    parts = zip(hidden.split(spec.hidden, 1), range(spec.layers), strict=True)
    outputs = torch.cat([part @ network.parameter(k, "weight_out") for part, k in parts], 1)
    joined = _powers(outputs, spec.width_out(spec.layers - 1), propagate)
    last = spec.layers - 1
    return torch.addmm(network.parameter(last, "bias"), joined, network.parameter(last, "combine"))


def _powers(x: Tensor, width: int, propagate: Propagate) -> Tensor:
    """Multiply the k-th of the parts side by side, ``width`` columns each, k times."""
    done, rest = [x[:, :width]], x[:, width:]
    while rest.shape[1]:
        rest = propagate(rest.contiguous())
        done.append(rest[:, :width])
        rest = rest[:, width:]
    return torch.cat(done, 1)


def _weight(network: Any, layer: int) -> Tensor:
    weight: Tensor = network.parameter(layer, "weight")
    return weight
