"""Kernels that measure bandwidth: they read every value, and refuse rows outside the table."""

from itertools import product

import numpy as np
import pytest
import torch

from backends.kernels import ceiling
from backends.kernels.extension import extension


@pytest.mark.parametrize("width", [1, 5, 8, 16, 23, 64, 65, 200])
@pytest.mark.parametrize("threads", [1, 2])
def test_a_gather_reads_every_value_of_its_rows(width, threads):
    if extension is None:
        return
    draw = np.random.default_rng(width)
    table = torch.from_numpy(draw.integers(0, 9, (50, width)).astype(np.float32))
    indices = torch.from_numpy(draw.integers(0, 50, 10_000).astype(np.int32))
    rows = table.numpy()[indices.numpy()]
    lanes = next(lanes for lanes in (extension.lanes, 8, 4, 2, 1) if lanes <= width)
    twice = rows[:, width - lanes : width - width % lanes].sum() if width % lanes else 0  # a tail is a whole vector
    for ahead, block in product((0, 16, 20_000), (1, 64, 1 << 15)):
        assert ceiling.gathering(table, indices)(ahead, block, threads) == rows.sum() + twice
    column = table[:48, 0].contiguous()
    assert ceiling.read_stream(column, threads) == column.sum()


def test_rows_that_do_not_exist_are_refused():
    with pytest.raises(ValueError, match="rows 0 to 3 of 3"):
        ceiling.gathering(torch.ones(3, 4), torch.tensor([0, 3], dtype=torch.int32))
