"""AGL's options: those that need Ray are refused without it before anything runs."""

import sys

import pytest

from backends.agl.config import AglConfig
from harness.planning.cells import resolve_cell
from harness.planning.compose import compose_one
from harness.planning.config import load


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
