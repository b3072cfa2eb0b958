"""AGL's options: what needs Ray says so before anything runs."""

import sys

import pytest

from backends.agl.config import AglConfig
from harness.planning.cells import resolve_cell
from harness.planning.compose import compose_one
from harness.planning.config import load


@pytest.fixture
def without_packages(monkeypatch):
    """Leave only what is no installed package on the path."""
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
def test_what_needs_ray_says_what_to_install_and_what_does_without(without_packages, options, instead):
    reason = AglConfig(**options).missing()
    assert (reason is None) == (instead is None)
    assert reason is None or ("pip install -e '.[ray]'" in reason and reason.endswith(f"or {instead}"))


def test_a_cell_on_ray_without_ray_is_not_installed(without_packages):
    cell = resolve_cell(load(compose_one(["backend=agl", "scenario=flatten", "backend.run_on=ray"])))
    assert cell.status == "not_installed" and "backend.run_on=ray needs the package ray" in cell.message
