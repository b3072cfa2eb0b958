"""Keys of dropout: one per epoch and layer, so that a mask is computed again wherever it is needed."""

from collections.abc import Callable
from functools import partial

from datasets.randomness import stream


class EpochKey(int):
    """The key of masks in one epoch: a hash of (seed, what is dropped, epoch, layer)."""

    def __new__(cls, seed: int, dropped: str, epoch: int, layer: int) -> "EpochKey":
        """The key as an integer that knows how the keys of other epochs are made."""
        key = super().__new__(cls, stream(seed, f"dropout {dropped} epoch {epoch}, layer {layer}"))
        key.of_epoch = partial(cls, seed, dropped, layer=layer)
        return key

    of_epoch: Callable[[int], "EpochKey"]


def mask_key(seed: int, epoch: int, layer: int) -> EpochKey:
    """The key of a layer's masks in one epoch."""
    return EpochKey(seed, "of", epoch, layer)


def attention_key(seed: int, epoch: int, layer: int) -> EpochKey:
    """The key of a layer's masks of attention in one epoch."""
    return EpochKey(seed, "of attention in", epoch, layer)
