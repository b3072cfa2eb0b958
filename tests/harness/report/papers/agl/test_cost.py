"""Costs extrapolated by graph size, and units of work of each stage."""

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.report.growth import Point, error, extrapolated
from tests import factory
from tests.harness.report.suite_cells import assert_pictured, page


def sizes(growth: float, base: float = 1e-6) -> list[Point]:
    return [Point(nodes, nodes, nodes * (base + growth * math.log(nodes)), 2.0, None) for nodes in (1e3, 1e4, 1e5, 1e6)]


@given(growth=st.floats(0, 1e-5), base=st.floats(1e-7, 1e-3))
def test_the_law_is_exact_where_it_holds(growth: float, base: float) -> None:
    points = sizes(growth, base)
    assert error(points) == pytest.approx(0, abs=1e-6)
    assert extrapolated(points, 1e9) == pytest.approx(sizes(growth, base)[0].each + growth * 13.815510557964274)


@given(each=st.lists(st.floats(1e-9, 1e-3), min_size=1, max_size=6), nodes=st.floats(1e9, 1e12))
def test_a_unit_never_gets_cheaper_than_on_the_largest_measured_graph(each: list[float], nodes: float) -> None:
    points = [Point(10.0**place, 1.0, value, 1.0, None) for place, value in enumerate(each, start=3)]
    assert extrapolated(points, nodes) >= points[-1].each
    assert (error(points) is None) == (len(points) == 1)
    slower = [*points[:-1], replace(points[-1], seconds=10 * points[-1].seconds)]
    assert len(points) == 1 or (error(slower) or 0) < (error(points) or 0)


def test_points_of_one_size_are_no_law() -> None:
    one = Point(1e4, 1e4, 1.0, 1.0, None)
    slower = replace(one, seconds=3.0)
    assert extrapolated([one, slower], 1e9) == slower.each
    assert error([one, slower]) is None
    smaller = Point(1e3, 1e3, 0.1, 1.0, None)
    assert error([smaller, one, slower]) == pytest.approx(-2 / 3)


def test_cost_counts_units_of_each_stage_and_keeps_series_apart(tmp_path: Path) -> None:
    results = tmp_path / "results"
    for nodes in (1000, 10_000):
        counts = {"nodes": nodes, "edges": 20 * nodes, "train": nodes // 2, "features": 656}
        shared: dict[str, Any] = {"dataset": {"name": "uug", "options": {"nodes": nodes}}}
        for stage, engine, seconds in (("infer", "agl", 1e-6), ("infer", "dgl", 4e-6), ("train", "agl", 1e-5)):
            values = factory.config(engine, 0, **shared, scenario={"name": stage}, suite="agl_cost")
            record = factory.record(engine, 0, seconds * counts["edges"], config=values) | {"facts": {}}
            factory.write(results, record | {"dataset": factory.DATASET | {"counts": counts}}, folder=f"{nodes}")
        values = factory.config("agl", 0, **shared, scenario={"name": "flatten"}, suite="agl_cost")
        record = factory.record("agl", 0, 0.5, config=values) | {"facts": {"records": 100}, "extrapolated": 7.0}
        factory.write(results, record | {"dataset": factory.DATASET | {"counts": counts}}, folder=f"{nodes}")
    shared = {"dataset": {"name": "uug", "options": {"nodes": 10**7}}}
    values = factory.config("dgl", 0, **shared, scenario={"name": "infer"}, suite="agl_cost")
    factory.write(results, factory.record("dgl", 0, status="oom", config=values), folder="large")
    text = page(results, "agl_cost")
    assert re.search(r"\| infer \| dgl[^|]*\| 10,000,000 \| — \| [^|]*oom", text)
    assert_pictured(results, "agl_cost", text, ["infer: µs per unit of work (edges)", "dgl", "nodes"])
    law = [line for line in all_law_lines(text) if not line[1].startswith("paper: ")]
    assert len(law) == 4
    hours = {(line[0], line[1].split(",")[0]): float(line[-1].replace(",", "")) for line in law}
    assert hours["infer", "agl"] == pytest.approx(1e-6 * 3.38e11 / 3600 * 1.8, rel=0.1)
    assert hours["infer", "dgl"] == pytest.approx(4 * hours["infer", "agl"], rel=0.1)
    assert hours["flatten", "agl"] == pytest.approx(0.5 / 100 * 1.4e8 / 3600 * 1.8, rel=0.1)  # not 7 times that
    assert re.search(r"inference of all nodes.*1,200 worker hours \| \S+ CPU hours, extrapolated \(agl", text)


def all_law_lines(text: str) -> list[list[str]]:
    law = text[text.index("extrapolated:") :].partition("\n## ")[0].partition("<details>")[0]
    rows = [re.split(r"(?<!\\)\|", line)[1:-1] for line in law.splitlines() if line.startswith("| ")]
    return [[value.strip() for value in row] for row in rows[2:]]
