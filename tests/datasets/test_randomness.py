"""The hash behind every random choice, pinned: another engine, machine or language must draw the same."""

import math

import numpy as np

from datasets.randomness import below, hash_ids, keyed, logarithm, stream, unit_interval

IDS = np.array([0, 1, 2, 2**31, 2**40 + 7])
HASHES = [0xD52497FA2244B9C9, 0x38AA647E982F1957, 0x92A0B320A67ED982, 0xBE2CF8A99E41EC0D, 0xA73EFCF8ED86E9CF]


def test_hashes_are_pinned():
    assert stream(7, "neighbour keys") == 0x121DAA138B97F8E9
    assert hash_ids(7, "neighbour keys", IDS).tolist() == HASHES


def test_hashes_chain_and_stay_in_their_bounds():
    np.testing.assert_array_equal(hash_ids(3, "a", IDS), keyed(stream(3, "a"), IDS))
    chained = keyed(hash_ids(3, "a", IDS), IDS)
    assert [int(keyed(int(key), IDS[i : i + 1])[0]) for i, key in enumerate(hash_ids(3, "a", IDS))] == chained.tolist()
    ends = np.array([0, 2**64 - 1], dtype=np.uint64)
    assert below(ends, np.array([7, 7])).tolist() == [0, 6]
    hashes, bounds = hash_ids(5, "b", np.arange(60)), np.repeat([1, 10, 2**32 - 1, 2**32, 2**40 + 3, 2**62], 10)
    exact = [int(word) * int(bound) >> 64 for word, bound in zip(hashes, bounds, strict=True)]
    assert below(hashes, bounds).tolist() == exact
    assert unit_interval(ends).tolist() == [2.0**-53, 1.0]


def test_logarithm_is_within_two_units_of_the_last_place():
    drawn = unit_interval(hash_ids(0, "values", np.arange(20000)))
    values = np.concatenate([drawn, [1.0, 2.0**-53, 0.5, math.sqrt(0.5), np.nextafter(1.0, 0)]])
    exact = np.array([math.log(value) for value in values])
    assert (np.abs(logarithm(values) - exact) <= 2 * np.spacing(np.abs(exact))).all()


def test_a_seed_is_any_whole_number():
    assert stream(np.int64(3), "x") == stream(np.uint64(3), "x") == stream(3, "x") == stream(3 + 2**64, "x")
    assert stream(np.int64(-1), "x") == stream(-1, "x") == stream(2**64 - 1, "x")
