"""The index of ids on disk: few keys cost what few keys cost."""

import tracemalloc
from pathlib import Path

import numpy as np

from datasets.tables.id_index import write_index
from datasets.tables.out_of_core import Buckets


def test_a_few_keys_are_found_without_reading_their_bucket(tmp_path: Path) -> None:
    rows = 1 << 18
    keys = Buckets(tmp_path, "ids", 1, 2)
    keys.append(np.zeros(rows, dtype=np.int64), 7 * np.arange(rows), np.arange(rows))
    index = write_index(keys, tmp_path, "nodes.csv", "integers")
    tracemalloc.start()
    numbers, unknown = index.find(0, np.array([7, 8, 7 * (rows - 1)]))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (numbers[[0, 2]].tolist(), unknown.tolist()) == ([1, rows - 1], [False, True, False])
    assert peak < rows  # the bucket has 16 bytes a row
