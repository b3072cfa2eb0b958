"""Samples of the three commands: what a later table or other shards may differ in, and what is named."""

import re

import numpy as np

from backends.agl.flat import __main__ as flat
from backends.agl.infer import __main__ as infer
from tests.backends.agl.chain import EDGES, SOURCES, chain, scores_of, tables


def test_a_weight_that_sampling_cannot_use_is_named_by_its_row(tmp_path, capsys):
    files = chain(tmp_path, "gcn", "-s", "weighted(by=weight, limit=3)")
    later = EDGES | {"weight": np.where(np.arange(len(SOURCES)) == 12, 0.0, EDGES["weight"])}
    tables(tmp_path, edges=later)
    arguments = ["-m", str(tmp_path / "model.safetensors"), *files, "-o", str(tmp_path / "scores")]
    assert infer.main(arguments) == 2
    error = capsys.readouterr().err
    assert re.search(r"edges\.parquet: row 13: has weight 0\.0, .*: correct it, or train with a filter", error), error
    assert not (tmp_path / "scores").exists()


def test_shards_of_all_in_edges_are_scored_whatever_the_seed_that_nothing_draws_by(tmp_path):
    files = chain(tmp_path, "gcn", "-s", "full()")
    assert flat.main([*files, "-h", "2", "-s", "full()", "--seed", "5", "-o", str(tmp_path / "again")]) == 0
    for source in ("flat", "again"):
        stated = ["-m", str(tmp_path / "model.safetensors"), "-i", str(tmp_path / source)]
        assert infer.main([*stated, "-o", str(tmp_path / f"of-{source}")]) == 0
    first, second = (scores_of(tmp_path / f"of-{source}") for source in ("flat", "again"))
    assert all(np.array_equal(first[node], second[node]) for node in first)
