"""A few of the faults of ``faults.py``, whose program injects hundreds."""

import random

import pytest

from tests.cli.faults import FAULTS, FaultyCommandLine, inject


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> FaultyCommandLine:
    return FaultyCommandLine(tmp_path_factory.mktemp("faults"))


def test_a_killed_run_leaves_whole_records_and_the_next_call_makes_the_rest(harness: FaultyCommandLine) -> None:
    inject("kills", harness, random.Random(1))


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.needs_root] * (name in ("disks", "folders"))) for name in FAULTS]
)
def test_no_fault_does_damage(name: str, harness: FaultyCommandLine) -> None:
    for seed in range(3):
        inject(name, harness, random.Random(seed))


def test_damage_is_seen(harness: FaultyCommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    def cut(harness: FaultyCommandLine, draw: random.Random) -> None:
        path = next((harness.home / "results").glob("*/**/seed=*.json"))
        path.write_bytes(path.read_bytes()[:100])

    monkeypatch.setitem(FAULTS, "kills", cut)
    with pytest.raises(AssertionError, match="seed="):
        inject("kills", harness, random.Random(0))
