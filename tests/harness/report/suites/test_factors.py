"""Factors of a suite: of common processes alone, without doubtful figures."""

from pathlib import Path
from typing import Any

import pytest

from harness.report.content import NOTHING
from harness.report.rows import Row
from harness.report.suites.factors import RowPair, range_of, times
from tests import factory

PEERS = (("dgl", 0.2), ("pyg", 0.3))
LOADED = {"prepare": {}, "warmup": [0.1], "first_call": 0.1, "load": 1.0, "tolerated_load": 0.1}


def row(seconds: float, **keys: Any) -> Row:
    return Row("", [(Path("x"), factory.in_fresh_processes(factory.record("agl", 0, seconds)) | keys)])


@pytest.mark.parametrize(
    "keys", [{"alone": True}, {"facts": {"oversubscribed": 1}}, {"group": "other"}, {"run": "other"}], ids=str
)
def test_rows_without_a_common_process_have_no_factor(keys: dict[str, Any]) -> None:
    ours, other = row(0.1), row(0.2, **keys)
    assert times(ours, other) == times(other, ours) == NOTHING
    assert range_of([RowPair(ours, other)], "{:.2g}") == "1 not comparable"
    assert (times(ours, row(0.2)), times(ours, ours)) == ("2", "1")


def test_doubtful_figures_are_left_out_of_a_range_and_counted() -> None:
    ours, loaded = row(0.1), row(0.8, processes=[LOADED])
    assert loaded.doubts
    assert range_of([RowPair(ours, row(0.2)), RowPair(ours, row(0.4)), RowPair(ours, loaded)], "{:.2g}", " times") == (
        "2 to 4 times, 1 left out as doubtful (⚠)"
    )
    assert range_of([RowPair(ours, loaded)], "{:.2g}") == "1 left out as doubtful (⚠)"


def test_a_factor_of_few_processes_is_left_out_of_a_range_and_counted() -> None:
    look = Row("", [(Path("x"), factory.record("agl", 0, 0.8))])
    assert range_of([RowPair(row(0.1), row(0.2)), RowPair(row(0.1), look)], "{:.2g}") == "2, 1 left out as doubtful (⚠)"


def test_a_factor_beside_a_peer_that_may_not_be_the_fastest_is_left_out_of_a_range() -> None:
    dgl, pyg = (factory.in_fresh_processes(factory.record(name, 0, seconds)) for name, seconds in PEERS)
    pyg["epochs"]["seconds"][2] = 0.12
    peers = [Row("", [(Path("x"), record)]) for record in (dgl, pyg)]
    assert range_of([RowPair(row(0.1), peers[0], peers[:1])], "{:.2g}") == "2"
    assert range_of([RowPair(row(0.1), peers[0], peers)], "{:.2g}") == "1 left out as doubtful (⚠)"


def test_a_factor_of_whole_epochs_beside_extrapolated_ones_is_left_out_of_a_range() -> None:
    part = row(0.02, extrapolated=10.0)
    assert range_of([RowPair(row(0.1), part)], "{:.2g}") == "1 left out as doubtful (⚠)"
    assert range_of([RowPair(row(0.01, extrapolated=5.0), part)], "{:.2g}") == "4"
