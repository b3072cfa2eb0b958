"""Buckets are sorted in pieces that fit into memory, whatever numbers their rows hold."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datasets.tables.out_of_core import Buckets
from datasets.tables.sorting import part_of, part_span, sorted_rows

SPANS = (3, 9), (0, 500), (0, 2000)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.sampled_from([3, 4, 8]), st.sampled_from([0, 1, 499]), st.integers(0, 1999)), unique=True))
@pytest.mark.parametrize("most", [1, 3, 1000])
def test_rows_come_in_order_however_few_are_sorted_at_once(tmp_path_factory, most, rows) -> None:
    folder = tmp_path_factory.mktemp("sorting")
    bucket = Buckets(folder, "b", 1, 3)
    columns = np.array(rows, dtype=np.int64).reshape(-1, 3)
    bucket.append(np.zeros(len(rows), dtype=np.int64), *columns.T)
    bucket.close()
    pieces = list(sorted_rows(bucket.paths[0], SPANS, most))
    assert np.concatenate(pieces).tolist() == sorted(map(list, rows))
    assert max(map(len, pieces)) <= most and not list(folder.iterdir())


@given(st.integers(0, 50), st.integers(1, 50), st.integers(1, 70))
def test_each_number_lies_in_the_span_of_its_part(first, width, parts) -> None:
    numbers, span = np.arange(first, first + width), (first, first + width)
    spans = np.array([part_span(part, span, parts) for part in part_of(numbers, span, parts).tolist()])
    assert (spans[:, 0] <= numbers).all() and (numbers < spans[:, 1]).all()
    assert [part_span(0, span, parts)[0], part_span(parts - 1, span, parts)[1]] == [*span]
