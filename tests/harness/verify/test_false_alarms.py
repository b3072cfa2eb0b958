"""Right engines pass on random cells; ``python -m tests.harness.verify.false_alarms`` does so for 2,000."""

from importlib.util import find_spec

import pytest

from tests.harness.verify.false_alarms import verdict
from tests.harness.verify.random_cells import ENGINES, random_cell

INSTALLED = [
    engine for engine in ENGINES if find_spec({"pyg": "torch_geometric", "dgl": "dgl"}.get(engine[0], "torch"))
]


@pytest.mark.parametrize("seed", range(20))
def test_a_right_engine_passes(seed):
    cell = random_cell(seed, engines=INSTALLED)
    parity = verdict(cell)
    assert not parity["wrong"], f"{parity} {cell}"


@pytest.mark.slow
@pytest.mark.parametrize("hundred", range(1, 6))
def test_right_engines_pass(hundred):
    for seed in range(100 * hundred, 100 * hundred + 100):
        test_a_right_engine_passes(seed)
