"""Noise of a shared machine, for simulations: it is the same for every statistic that is tested on it.

Each run (a fresh process) has a lognormal factor of its own that all of its samples share; the machine drifts in a line
and at random; a sample in fifty takes twice as long; whoever comes second in a pair is 1.5 % slower.
"""

import numpy as np
from numpy.typing import NDArray

SECOND = 0.015
DRIFT = 0.05
WANDERING = 0.01
WITHIN = 0.02
OUTLIERS, OUTLYING = 0.02, 2.0
SAMPLES = 5

Floats = NDArray[np.float64]


def drift(random: np.random.Generator, runs: int) -> Floats:
    """Logarithm of the machine's slowness at consecutive runs, [runs]."""
    return DRIFT * np.linspace(0, 1, runs) + np.cumsum(random.normal(0, WANDERING, runs))


def run_medians(random: np.random.Generator, sigma: float, slow: Floats) -> Floats:
    """Medians of the samples of runs that are slowed down by the factors ``exp(slow)``, [runs]."""
    runs = len(slow)
    samples = (random.normal(0, sigma, runs) + slow)[:, None] + random.normal(0, WITHIN, (runs, SAMPLES))
    samples += np.where(random.random((runs, SAMPLES)) < OUTLIERS, np.log(OUTLYING), 0.0)
    return np.exp(np.median(samples, axis=1))


def pair_ratios(random: np.random.Generator, pairs: int, sigma: float, factor: float) -> list[float]:
    """Ratios B / A of pairs of runs in the order A B B A ..., where B takes ``factor`` times as long as A."""
    is_b = np.tile([False, True, True, False], pairs)[: 2 * pairs]
    second = np.arange(2 * pairs) % 2 == 1
    slow = drift(random, 2 * pairs) + np.log(factor) * is_b + SECOND * second
    seconds = run_medians(random, sigma, slow).reshape(pairs, 2)
    ratios = np.where(is_b.reshape(pairs, 2)[:, 1], seconds[:, 1] / seconds[:, 0], seconds[:, 0] / seconds[:, 1])
    return [float(ratio) for ratio in ratios]


def folder_seconds(random: np.random.Generator, processes: int, sigma: float, factors: list[float]) -> list[Floats]:
    """Seconds of the cells of a group, one per fresh process of each.

    The cells take ``factors`` of a second; those of one round of processes share the machine's drift, and the folder a
    day on which everything takes another time.
    """
    day = random.normal(0, 2 * sigma)
    shared = day + drift(random, processes)
    return [run_medians(random, sigma, shared + np.log(factor)) for factor in factors]
