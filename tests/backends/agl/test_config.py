"""AGL's options: wrong ones are refused before anything runs, and those that need Ray without it."""

import sys

import pytest

from backends.agl.config import AglConfig
from harness.planning.cells import resolve_cell
from harness.planning.compose import compose_one
from harness.planning.config import load
from harness.usage import UsageError


@pytest.fixture
def without_packages(monkeypatch):
    """Remove installed packages from the path."""
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if "-packages" not in entry])


@pytest.mark.parametrize(
    ("options", "instead"),
    [
        ({"run_on": "ray"}, "backend.run_on=local"),
        ({"strategy": "sync", "workers": 2}, "backend.servers=0"),
        ({"strategy": "sync", "workers": 2, "servers": 0}, None),
        ({"strategy": "allreduce", "workers": 2}, None),
        ({}, None),
    ],
    ids=str,
)
def test_options_that_need_ray_name_the_package_and_the_option_without_it(without_packages, options, instead):
    reason = AglConfig(**options).missing()
    assert (reason is None) == (instead is None)
    assert reason is None or ("pip install -e '.[ray]'" in reason and reason.endswith(f"or {instead}"))


def test_a_cell_on_ray_without_ray_is_not_installed(without_packages):
    cell = resolve_cell(load(compose_one(["backend=agl", "scenario=flatten", "backend.run_on=ray"])))
    assert cell.status == "not_installed" and "backend.run_on=ray needs the package ray" in cell.message


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["infer=guess"], "backend.infer=guess is not allowed: choose graphinfer, neighbourhood, fullgraph"),
        (["strategy=gossip"], "backend.strategy=gossip is not allowed: choose local, sync"),
        (["partitions=-1"], "backend.partitions=-1 is too small: give at least 0"),
        (["strategy=sync", "workers=0"], "backend.workers=0 is too small: give at least 1"),
        (["servers=-1"], "backend.servers=-1 is too small: give at least 0"),
        (["staleness=-1"], "backend.staleness=-1 is too small: give at least 0"),
        (["checkpoint_every=-5"], "backend.checkpoint_every=-5 is too small: give at least 0"),
        (["workers=2"], "workers=2 needs a strategy of many workers: one of sync"),
    ],
    ids=str,
)
def test_options_out_of_range_are_refused(options, message):
    with pytest.raises(UsageError, match=message):
        load(compose_one(["backend=agl", *(f"backend.{option}" for option in options)]))
