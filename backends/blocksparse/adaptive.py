"""Forms of the products that are tried once in ``prepare``: column panels, then dense tiles where no panels won."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

import torch

from backends.base.layered import LayerMatrix
from backends.blocksparse.config import BlocksparseConfig
from backends.kernels.operand import operand
from backends.kernels.panels import choose_panels
from backends.kernels.tiles import TileChoice, choose_tiles
from datasets.csr import Csr

FORMED = ("panels", "tiles")
FORMS = (*FORMED, "inflation", "threshold")
LEAST_DENSITY = 1 / 1024  # of a tile with one edge
Forms = dict[str, dict[str, float]]


def adapt(
    config: BlocksparseConfig,
    model: str,
    device: torch.device,
    dtype: torch.dtype,
    matrix: LayerMatrix,
    widths: Mapping[str, int],
) -> Forms:
    """Try the forms for products of tables of ``dtype`` with a matrix; ``widths`` are theirs by name, each tried once.

    Returns, by the names of the products, the number of panels where a table was cut (``panels``), and where tiles are
    used the share of the edges in them (``tiles``), the multiplications over one per edge (``inflation``) and the
    density that they have at least (``threshold``).
    """
    forms: Forms = {name: {} for name in FORMS}
    if model == "gat":
        return forms
    tried: dict[tuple[int, bool], tuple[int, TileChoice]] = {}
    for name, width in widths.items():
        key = width, name.endswith("backward")
        if key not in tried:
            tried[key] = _try(config, device, dtype, matrix, *key)
        panels, tiles = tried[key]
        forms["panels"] |= {name: panels} if panels > 1 else {}
        forms["tiles"] |= {name: tiles.share} if tiles.used else {}
        forms["inflation"] |= {name: tiles.inflation} if tiles.used else {}
        forms["threshold"] |= {name: tiles.threshold} if tiles.used else {}
    return forms


def gate_configs(config: BlocksparseConfig, used: Iterable[Forms]) -> list[BlocksparseConfig]:
    """The options with which the parity gate is passed: also with a form in every product, where some product has it.

    On the gate's small graphs no trial would choose it.
    """
    names = {name for forms in used for name in FORMED if forms.get(name)}
    least = {"tiles": {"density_threshold": LEAST_DENSITY}}
    return [config, *(replace(config, forms=name, **least.get(name, {})) for name in sorted(names))]


def _try(
    config: BlocksparseConfig,
    device: torch.device,
    dtype: torch.dtype,
    matrix: LayerMatrix,
    width: int,
    transposed: bool,
) -> tuple[int, TileChoice]:
    """The number of panels, which only a processor's caches need, and the choice of tiles of one product."""
    arguments = matrix.csr, width, matrix.weight, transposed
    side = operand(matrix.csr).backward if transposed else operand(matrix.csr).forward
    side.panels.pop(width, None)  # of an earlier task on this matrix with other options
    side.tiles.pop(width, None)
    panels = 1
    if config.on("panels") and config.forms != "tiles" and device.type == "cpu":
        panels = choose_panels(*arguments, trial=config.forms == "tried", dtype=dtype).panels
    if panels > 1 or not config.on("tiles") or config.forms == "panels":
        return panels, TileChoice(False, 0.0)
    return panels, _choose_density(config, device, dtype, *arguments)


def _choose_density(
    config: BlocksparseConfig,
    device: torch.device,
    dtype: torch.dtype,
    csr: Csr,
    width: int,
    weight: torch.Tensor | None,
    transposed: bool,
) -> TileChoice:
    """The choice of tiles of the density that gains most, which stay for later calls; none where no density gains."""
    side = operand(csr).backward if transposed else operand(csr).forward
    is_trial = config.forms == "tried" or len(config.densities) > 1
    best, tiles = TileChoice(False, 0.0), {}
    for density in config.densities:
        choice = choose_tiles(csr, width, weight, transposed, density, is_trial, device, dtype)
        if choice.used and (not best.used or choice.gain > best.gain):
            best, tiles = choice, {width: side.tiles[width]}
    side.tiles.pop(width, None)
    side.tiles |= tiles
    return best
