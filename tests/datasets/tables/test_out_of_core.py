"""Buckets on disk return their rows in the order of appending."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from datasets.tables.out_of_core import Buckets


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(-(2**60), 2**60)), max_size=40), st.integers(1, 5))
def test_buckets_keep_rows_and_their_order(tmp_path_factory, rows: list[tuple[int, int]], pieces: int) -> None:
    buckets = Buckets(tmp_path_factory.mktemp("buckets"), "b", 4, 2)
    for piece in np.array_split(np.array(rows, dtype=np.int64).reshape(-1, 2), pieces):
        buckets.append(piece[:, 0], piece[:, 1], piece[:, 0])
    for number, values in enumerate(buckets.drain()):
        assert values.tolist() == [[value, bucket] for bucket, value in rows if bucket == number]
