"""Labels, features and splits of a lookalike: labels correlate with communities, features weakly with labels."""

import numpy as np
from numpy.typing import NDArray

from datasets.graph import SPLITS
from datasets.randomness import hash_ids, uniform
from datasets.synthetic.distributions import noise
from datasets.synthetic.lookalike.layout import CommunityLayout
from datasets.synthetic.lookalike.shapes import LookalikeShape

PURITY = 0.85
SIGNAL = 2.0
PROFILES = 32
LIKELY = 0.3
PROBABLE, IMPROBABLE = 0.85, 0.1


def community_labels(shape: LookalikeShape, layout: CommunityLayout, seed: int) -> NDArray[np.integer]:
    """Draw labels by community.

    Multiclass: the class of the community, or with probability ``1 - PURITY`` any class, int64 [nodes].

    Multilabel: each community has one of ``PROFILES`` profiles, in which a share ``LIKELY`` of the classes is probable,
    int8 [nodes, classes]; every graph uses the same profiles, so that a trained model generalizes to unseen graphs.
    """
    nodes = np.arange(layout.nodes)
    if shape.task == "multilabel":
        columns = np.arange(shape.classes)
        profile = (hash_ids(seed, "lookalike profile", layout.community) % np.uint64(PROFILES)).astype(np.int64)
        likely = uniform(seed, "lookalike likely", profile[:, None] * shape.classes + columns) <= LIKELY
        chance = uniform(seed, "lookalike labels", nodes[:, None] * shape.classes + columns)
        return (chance <= np.where(likely, PROBABLE, IMPROBABLE)).astype(np.int8)
    common = layout.community % shape.classes
    any_class = (hash_ids(seed, "lookalike other class", nodes) % np.uint64(shape.classes)).astype(np.int64)
    return np.where(uniform(seed, "lookalike purity", nodes) <= PURITY, common, any_class)


def label_features(shape: LookalikeShape, classes: NDArray[np.integer], seed: int) -> NDArray[np.float32]:
    """Draw unit noise plus ``SIGNAL`` along a random direction per label, summed: float32 [nodes, width]."""
    out = noise(seed, "lookalike feature", np.arange(len(classes)), shape.features)
    directions = noise(seed, "lookalike direction", np.arange(shape.classes), shape.features)
    directions *= np.float32(SIGNAL * shape.features**-0.5)
    if classes.ndim == 1:
        for label in range(shape.classes):
            out[classes == label] += directions[label]
    else:
        centered = (classes - classes.mean(axis=0)).astype(np.float32)
        out += centered @ directions * np.float32(2 * shape.classes**-0.5)
    return out


def shape_splits(shape: LookalikeShape, layout: CommunityLayout, seed: int) -> NDArray[np.int8]:
    """Split by graph where there are several, else by hash, in the shares of the shape; others are for testing."""
    if shape.graphs > 1:
        place, bounds = layout.graph.astype(np.float64), np.cumsum(shape.split) - 0.5
    else:
        place, bounds = uniform(seed, "lookalike split", np.arange(layout.nodes)), np.cumsum(shape.split)
    return np.searchsorted(bounds, place).astype(np.int8) + np.int8(SPLITS["train"])
