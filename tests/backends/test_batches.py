"""Batches of an epoch: how much of it the first ones are."""

import numpy as np
import pytest

from backends.batches import BatchPlan


@pytest.mark.parametrize(
    ("nodes", "size", "limit", "factor"),
    [(40, None, None, 1.0), (40, 4, None, 1.0), (40, 4, 8, 1.25), (33, 4, 8, 33 / 32), (8193, 1024, 8, 8193 / 8192)],
    ids=["full-batch", "whole", "even", "one-target-left", "nearly-whole"],
)
def test_an_epoch_is_extrapolated_by_targets(nodes: int, size: int | None, limit: int | None, factor: float) -> None:
    plan = BatchPlan(np.arange(nodes), size, limit)
    assert plan.extrapolation == factor
    assert sum(map(len, plan.targets(0))) * factor == pytest.approx(nodes)
