"""Seconds per unit of work by the size of the graph, and the law that carries them to a larger one.

On a graph of V nodes a unit takes ``s(V)`` seconds. Beyond the largest measured ``V_m`` it grows with the logarithm of
the size, as cache and page-table misses do: ``s(V) = s(V_m) + max(b, 0) ln(V / V_m)`` with ``b`` the least-squares
slope of ``s`` over ``ln V``. Fixed costs make ``b`` negative; a larger graph spreads them until they vanish.
``T = U s(V)``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from harness.planning.schema import is_executed, was_implied
from harness.store.naming import distinctions, flatten

NODES = "dataset.options.nodes"
LARGEST_MISS = 0.2  # a law that misses its largest size by a larger share is not extrapolated


@dataclass(frozen=True)
class Point:
    """One size: nodes, units of work in the timed call, its seconds, CPU seconds per second and peak bytes.

    ``doubts`` names what speaks against its seconds.
    """

    nodes: float
    units: float
    seconds: float
    busy: float
    peak: float | None
    doubts: str = ""

    @property
    def each(self) -> float:
        """Seconds per unit."""
        return self.seconds / self.units


def extrapolated(points: Sequence[Point], nodes: float) -> float:
    """Seconds per unit on a graph of ``nodes`` nodes, by the law above; one size has slope 0."""
    last = points[-1]
    sizes, each = np.log([point.nodes for point in points]), np.array([point.each for point in points])
    spread = sizes - sizes.mean()
    slope = float((spread * each).sum() / (spread**2).sum()) if spread.any() else 0.0
    return float(last.each + max(slope, 0.0) * np.log(nodes / last.nodes))


def error(points: Sequence[Point]) -> float | None:
    """Relative error on the largest graph of the law fitted on all smaller ones; ``None`` for a single size."""
    smaller = [point for point in points if point.nodes < points[-1].nodes]
    return extrapolated(smaller, points[-1].nodes) / points[-1].each - 1.0 if smaller else None


def settings_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """All that the points of a series share, by dotted key: executed settings but the nodes, and the interpreter."""
    executed = {key: value for key, value in flatten(config).items() if is_executed(key) and key != NODES}
    executed = {key: value for key, value in executed.items() if not was_implied(key, value)}
    return executed | {"launcher.python": config.get("launcher", {}).get("python")}


def different_names(names: Sequence[str], settings: Sequence[Mapping[str, Any]]) -> list[str]:
    """Names of series, equal ones with the settings that tell them apart."""
    words = distinctions(names, settings)
    return [" ".join([name, *added]) for name, added in zip(names, words, strict=True)]
