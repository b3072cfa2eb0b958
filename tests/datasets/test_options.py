"""Unknown options and names are refused with the allowed ones and the nearest."""

from dataclasses import dataclass

import pytest

from datasets.options import check_options, options_from, unknown_name


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
