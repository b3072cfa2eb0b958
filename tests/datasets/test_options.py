"""Unknown options and names are refused with the allowed ones and the nearest."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from datasets.options import check_options, options_from, unknown_name
from datasets.registry import load_dataset


@dataclass(frozen=True)
class SizeOptions:
    """Options of a generator in this test."""

    nodes: int = 10
    seed: int = 0


def test_options_become_a_dataclass() -> None:
    assert options_from(SizeOptions, "mesh", {"nodes": 3}) == SizeOptions(nodes=3)


def test_an_unknown_option_is_named_with_the_nearest() -> None:
    expected = "option of data set mesh 'node' is unknown: allowed are nodes, seed; did you mean 'nodes'\\?"
    with pytest.raises(ValueError, match=expected):
        options_from(SizeOptions, "mesh", {"node": 3})
    with pytest.raises(ValueError, match=r"'x' is unknown: allowed are none$"):
        check_options("option of order none", {"x": 1}, [])
    assert (
        unknown_name("order", "metic", ["metis"])
        == "order 'metic' is unknown: allowed are metis; did you mean 'metis'?"
    )


@pytest.mark.parametrize(
    ("dataset", "option", "value", "words"),
    [
        ("mesh", "nodes", "many", "a whole number"),
        ("mesh", "nodes", 1e3, "a whole number"),
        ("mesh", "missing", True, "a number"),
        ("uug", "seed", None, "a whole number"),
        ("lookalike_ppi", "scale", "half", "a number"),
        ("cit_hep_ph", "features", 1.5, "a whole number"),
        ("coauthor_cs", "split_seed", "a", "a whole number"),
        ("archaea", "weights", "no", "true or false"),
        ("ogbn_proteins", "edge_features", "off", "true or false"),
        ("tables", "split", 0.8, "text"),
        ("tables", "split", [0.8, 0.1, 0.1], "text"),
        ("tables", "nodes", ["a.csv", "b.csv"], "text"),
        ("tables", "features", [0.5], "text or a list of texts"),
    ],
)
def test_a_value_of_another_type_is_refused_before_any_file_is_read(
    dataset: str, option: str, value: Any, words: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=re.escape(f"dataset.options.{option}={value} is not allowed: give {words}")):
        load_dataset(dataset, {option: value}, tmp_path)


def test_a_whole_number_is_a_number_and_none_stands_for_the_default_scale() -> None:
    assert load_dataset("mesh", {"nodes": 4, "missing": 0}, Path()).nodes == 4
    assert load_dataset("lookalike_ppi", {"scale": None, "seed": 1}, Path()).nodes
