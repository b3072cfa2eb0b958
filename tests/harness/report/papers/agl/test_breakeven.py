"""Break-even epochs of a preparation."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.report.content import NOTHING
from harness.report.formats import break_even, epochs_until_even
from harness.report.rows import Row
from tests import factory


@given(extra=st.floats(0.1, 1e4), saved=st.floats(0.001, 1e3))
def test_after_the_break_even_epochs_both_have_taken_as_long(extra: float, saved: float) -> None:
    epochs = float(epochs_until_even(extra, saved))
    assert epochs * saved == pytest.approx(extra, rel=0.01)
    assert epochs_until_even(extra, -saved) == "never"
    assert epochs_until_even(-extra, saved) == "at once"
    assert epochs_until_even(-extra, -saved).startswith("ahead for")


def row(seconds: list[float], run: str = "1") -> Row:
    """A row of one sample in each of some processes."""
    values = factory.record("agl", group="g") | {"run": run}
    values["epochs"] |= {"seconds": seconds, "process": list(range(len(seconds)))}
    return Row("", [(Path("x"), values)])


def test_break_even_says_where_the_epochs_were_not_told_apart() -> None:
    ours = row([0.10, 0.11, 0.10, 0.12, 0.10])
    assert break_even(ours, row([0.20, 0.22, 0.20, 0.24, 0.20]), 1.0) == "10"
    assert break_even(ours, row([0.09, 0.14, 0.15, 0.20, 0.08]), 1.0).endswith(" ~")
    assert break_even(ours, row([0.2] * 5, run="2"), 1.0) == NOTHING
