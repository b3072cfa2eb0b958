"""Break-even epochs of a preparation."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.report.formats import epochs_until_even


@given(extra=st.floats(0.1, 1e4), saved=st.floats(0.001, 1e3))
def test_after_the_break_even_epochs_both_have_taken_as_long(extra: float, saved: float) -> None:
    epochs = float(epochs_until_even(extra, saved))
    assert epochs * saved == pytest.approx(extra, rel=0.01)
    assert epochs_until_even(extra, -saved) == "never"
    assert epochs_until_even(-extra, saved) == "at once"
    assert epochs_until_even(-extra, -saved).startswith("ahead for")
