"""Packages that compute orders: those that the sources import, and part of a prepared graph's name."""

import re
from importlib.metadata import version
from pathlib import Path

import pytest

from datasets import prepare
from datasets.order import ORDERS
from datasets.order.packages import order_packages
from harness.planning.schema import OrderConfig

ROOT = Path(__file__).resolve().parents[3]


def imported(module: str) -> set[str]:
    """Packages of others that a module of an order imports, itself or by modules beside it."""
    text = (ROOT / f"{module.replace('.', '/')}.py").read_text()
    beside = re.findall(r"from (datasets\.order\.\w+) import", text)
    return set(re.findall(r"(?:import|from) (scipy|pymetis)\b", text)).union(*map(imported, beside))


@pytest.mark.parametrize("name", sorted({*ORDERS} - {"blockwise"}))
def test_an_orders_packages_are_those_that_it_imports(name: str) -> None:
    assert set(order_packages(name, {})) == imported(ORDERS[name].partition(":")[0])


def test_blocks_are_ordered_by_the_packages_of_their_order() -> None:
    assert order_packages("blockwise", {"inner": "rcm"}) == {"scipy": version("scipy")}
    assert order_packages("blockwise", {"inner": "random"}) == {}


def test_another_version_prepares_another_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    orders = [OrderConfig(name) for name in ("none", "rcm")]
    before = [prepare._order_folder(order) for order in orders]
    monkeypatch.setattr("datasets.order.packages.version", lambda package: "0.1")
    after = [prepare._order_folder(order) for order in orders]
    assert before[0] == after[0] and before[1] != after[1]
