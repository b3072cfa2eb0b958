"""Labels, features and splits of a lookalike: labels follow communities, features follow labels, weakly."""

import numpy as np
from numpy.typing import NDArray

from datasets.graph import SPLITS
from datasets.lookalike_pairs import Layout
from datasets.lookalike_shapes import Shape
from datasets.randomness import hash_ids, uniform
from datasets.synthetic import noise

PURITY = 0.85
SIGNAL = 2.0
PROFILES = 32
LIKELY = 0.3
PROBABLE, IMPROBABLE = 0.85, 0.1


def labels(shape: Shape, plan: Layout, seed: int) -> NDArray[np.integer]:
    """Multiclass: the community's class, or with ``1 - PURITY`` any class, int64 [nodes].

    Multilabel: a community has one of ``PROFILES`` profiles, which makes a share ``LIKELY`` of the classes probable,
    int8 [nodes, classes]; profiles recur in every graph, so that unseen graphs can be learnt.
    """
    nodes = np.arange(plan.nodes)
    if shape.task == "multilabel":
        columns = np.arange(shape.classes)
        profile = (hash_ids(seed, "lookalike profile", plan.community) % np.uint64(PROFILES)).astype(np.int64)
        likely = uniform(seed, "lookalike likely", profile[:, None] * shape.classes + columns) <= LIKELY
        chance = uniform(seed, "lookalike labels", nodes[:, None] * shape.classes + columns)
        return (chance <= np.where(likely, PROBABLE, IMPROBABLE)).astype(np.int8)
    own = plan.community % shape.classes
    other = (hash_ids(seed, "lookalike other class", nodes) % np.uint64(shape.classes)).astype(np.int64)
    return np.where(uniform(seed, "lookalike purity", nodes) <= PURITY, own, other)


def features(shape: Shape, classes: NDArray[np.integer], seed: int) -> NDArray[np.float32]:
    """Unit noise plus ``SIGNAL`` along a random direction per class; several labels add up, float32 [nodes, width]."""
    out = noise(seed, "lookalike feature", np.arange(len(classes)), shape.features)
    directions = noise(seed, "lookalike direction", np.arange(shape.classes), shape.features)
    directions *= np.float32(SIGNAL * shape.features**-0.5)
    if classes.ndim == 1:
        for label in range(shape.classes):
            out[classes == label] += directions[label]
    else:
        held = (classes - classes.mean(axis=0)).astype(np.float32)
        out += held @ directions * np.float32(2 * shape.classes**-0.5)
    return out


def splits(shape: Shape, plan: Layout, seed: int) -> NDArray[np.int8]:
    """By graph where there are several, else by hash, in the shares of the shape; the rest is for test."""
    if shape.graphs > 1:
        place, bounds = plan.graph.astype(np.float64), np.cumsum(shape.split) - 0.5
    else:
        place, bounds = uniform(seed, "lookalike split", np.arange(plan.nodes)), np.cumsum(shape.split)
    return np.searchsorted(bounds, place).astype(np.int8) + np.int8(SPLITS["train"])
