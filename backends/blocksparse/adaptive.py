"""Forms of the products that are tried once in ``prepare``: column panels, then dense tiles where no panels won."""

from typing import Any

import torch

from backends.base.layered import LayerMatrix
from backends.blocksparse.config import BlocksparseConfig
from backends.kernels.operand import operand
from backends.kernels.panels import choose_panels
from backends.kernels.tiles import choose_tiles

Forms = dict[str, dict[str, float]]


def adapt(
    config: BlocksparseConfig, model: str, device: torch.device, matrix: LayerMatrix, products: list[dict[str, Any]]
) -> Forms:
    """Try the forms for products with a matrix; a width of a direction is tried once.

    Returns, by the names of the products, the number of panels where a table was cut (``panels``), and the share of the
    edges in tiles where these are used (``tiles``).
    """
    forms: Forms = {"panels": {}, "tiles": {}}
    if model == "gat" or device.type != "cpu":
        return forms
    tried: dict[tuple[int, bool], tuple[int, float]] = {}
    for one in products:
        key = one["width"], one["name"].endswith("backward")
        if key not in tried:
            tried[key] = _try(config, matrix, *key)
        panels, share = tried[key]
        forms["panels"] |= {one["name"]: panels} if panels > 1 else {}
        forms["tiles"] |= {one["name"]: share} if share > 0 else {}
    return forms


def _try(config: BlocksparseConfig, matrix: LayerMatrix, width: int, transposed: bool) -> tuple[int, float]:
    """The number of panels and the share of the edges in tiles of one product."""
    arguments = matrix.csr, width, matrix.weight, transposed
    side = operand(matrix.csr).backward if transposed else operand(matrix.csr).forward
    side.panels.pop(width, None)  # of an earlier task on this matrix with other options
    side.tiles.pop(width, None)
    panels = choose_panels(*arguments).panels if config.on("panels") and config.trial else 1
    if panels > 1 or not config.on("tiles"):
        return panels, 0.0
    choice = choose_tiles(*arguments, config.density_threshold, config.trial)
    return panels, choice.share if choice.used else 0.0
