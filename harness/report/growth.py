"""Seconds per unit of work by the size of the graph, and the law that carries them to a larger one.

On a graph of V nodes a unit takes ``s(V)`` seconds. Beyond the largest measured ``V_m`` it grows with the logarithm of
the size, as cache and page-table misses do: ``s(V) = s(V_m) + max(b, 0) ln(V / V_m)`` with ``b`` the least-squares
slope of ``s`` over ``ln V``. Fixed costs make ``b`` negative; a larger graph spreads them until they vanish.
``T = U s(V)``.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

LARGEST_MISS = 0.2  # a law that misses its largest size by a larger share is not extrapolated


@dataclass(frozen=True)
class Point:
    """One size: nodes, units of work in the timed call, its seconds, CPU seconds per second and peak bytes."""

    nodes: float
    units: float
    seconds: float
    busy: float
    peak: float | None

    @property
    def each(self) -> float:
        """Seconds per unit."""
        return self.seconds / self.units


def extrapolated(points: Sequence[Point], nodes: float) -> float:
    """Seconds per unit on a graph of ``nodes`` nodes, by the law above; one point has slope 0."""
    last = points[-1]
    sizes, each = np.log([point.nodes for point in points]), np.array([point.each for point in points])
    spread = sizes - sizes.mean()
    slope = float((spread * each).sum() / (spread**2).sum()) if len(points) > 1 else 0.0
    return float(last.each + max(slope, 0.0) * np.log(nodes / last.nodes))


def error(points: Sequence[Point]) -> float | None:
    """Relative error on the largest graph of the law fitted on all smaller ones; ``None`` for a single size."""
    if len(points) < 2:
        return None
    return extrapolated(points[:-1], points[-1].nodes) / points[-1].each - 1.0
