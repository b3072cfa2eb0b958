"""Pickles with mapped arrays: equal after a round trip, large ones read-only, small ones writable."""

import os
import resource

import numpy as np
import pytest

from backends.parallel import mapped
from tests.graphs import awkward_graph

LARGE = mapped.SMALLEST // 8


def round_trip(value):
    file, (places,) = mapped.dump([value])
    with file:
        return mapped.load(os.dup(file.fileno()), places)


@pytest.mark.parametrize("size", [0, 1, LARGE - 1, LARGE, 3 * LARGE + 1])
def test_arrays_come_back_and_large_ones_are_mapped(size):
    arrays = [np.arange(size), np.arange(2 * size, dtype=np.float32).reshape(2, size).T]
    for sent, received in zip(arrays, round_trip(arrays), strict=True):
        np.testing.assert_array_equal(received, sent)
        assert received.flags.writeable == (sent.nbytes < mapped.SMALLEST)


def test_mapped_files_are_mapped_again_and_shared_objects_stay_shared(tmp_path):
    np.save(tmp_path / "array.npy", np.arange(LARGE))
    array = np.load(tmp_path / "array.npy", mmap_mode="r")
    first, second = round_trip([(0, array), (1, array)])
    assert first[1] is second[1] and not first[1].flags.writeable
    np.testing.assert_array_equal(first[1], array)


def test_each_value_has_a_pickle_of_its_own_and_large_arrays_are_written_once():
    shared, small = np.arange(4 * LARGE), [np.full(100, rank) for rank in range(3)]
    file, places = mapped.dump([(shared, own) for own in small])
    with file:
        assert len({place for _, *large in places for place in large}) == 1
        for own, (pickled, *large) in zip(small, places, strict=True):
            assert pickled[1] < 2 * own.nbytes
            received = mapped.load(os.dup(file.fileno()), [pickled, *large])
            np.testing.assert_array_equal(received[0], shared)
            np.testing.assert_array_equal(received[1], own)


def test_a_graph_comes_back_with_its_cached_transpose():
    graph = awkward_graph(4)
    transpose = graph.csr.transpose[0]
    copy = round_trip(graph)
    np.testing.assert_array_equal(copy.csr.transpose[0].indices, transpose.indices)
    np.testing.assert_array_equal(copy.features, graph.features)
    assert copy.name == graph.name


def test_a_file_that_cannot_grow_is_an_error_that_names_the_folder_and_the_bytes():
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (mapped.SMALLEST, before[1]))
    try:
        with pytest.raises(OSError, match=r"[0-9,]{7,} bytes do not fit in /.*: set TMPDIR to a folder with more room"):
            mapped.dump([np.zeros(4 * LARGE)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
