"""The page of ``distpart_effect``: rows and bytes of each assignment, and when its seconds are won back."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from datasets.csr import csr_from_edges
from datasets.statistics import graph_statistics
from tests import factory
from tests.harness.report.suite_cells import lines_of, page

SUITE = "distpart_effect"


def write(
    results: Path, method: str, seconds: float, ordering: float, rows: int, model: Any = None, **backend: Any
) -> None:
    """The record of a cell: real ranks that receive ``rows`` MiB, or where ``replay`` is given a model of four."""
    order = {"name": "parts", "options": {"engine": "distpart", "options": {"method": method}, "parts": 2}}
    config = factory.config("blocksparse", order=order, backend=backend, suite=SUITE)
    record = factory.record("blocksparse", 0, seconds, config=config)
    structure = graph_statistics(csr_from_edges(np.arange(4), np.arange(4)[::-1].copy(), (4, 4)))
    dataset = factory.DATASET | {"structure": structure | {"peak_memory": {}, "rows_of_other_parts": rows}}
    record |= {"dataset": dataset, "prepare": {"order": ordering}}
    if "replay" in backend:
        record["facts"] = {"replay": [{"ranks": 4} | (model or {"seconds": seconds * 2, "exposed": seconds})]}
    else:
        traffic = [{"rows": rows << 20}, {"rows": 0}]
        record["facts"] = {"ranks": {"imbalance": 1.0, "received_rows": [rows - 1, 1], "traffic": traffic}}
    factory.write(results, record, folder=f"{method}-{len(backend)}")


@pytest.fixture
def text(tmp_path: Path) -> str:
    results = tmp_path / "results"
    for method, seconds, ordering, rows in (("random", 0.02, 0.1, 900), ("multilevel", 0.015, 0.6, 300)):
        write(results, method, seconds, ordering, rows, ranks=2)
        write(results, method, seconds, ordering, rows, ranks=1, replay=[4], link=[1.25e8, 5e-5])
    return page(results, SUITE)


def test_rows_are_counted_beside_the_prediction(text: str) -> None:
    lines = lines_of(text, "Ranks on the parts of each assignment")
    assert lines["distpart random"][:4] == ["2", "900", "900", "900.00"]
    assert lines["distpart multilevel"][:4] == ["2", "300", "300", "300.00"]
    assert lines["distpart random"][-1] == "—"
    assert float(lines["distpart multilevel"][-1]) == pytest.approx(100, rel=0.01)  # .5 s more, 5 ms less an epoch


def test_modelled_epochs_name_their_network(text: str) -> None:
    lines = lines_of(text, "Epochs over networks, modelled")
    assert lines["distpart multilevel"] == ["4", "1 Gbit/s", "30", "15", "1.33x", "50"]


def test_modelled_epochs_without_a_network_say_so(tmp_path: Path) -> None:
    write(tmp_path / "results", "multilevel", 0.015, 0.6, 300, ranks=1, replay=[4], link=[])
    lines = lines_of(page(tmp_path / "results", SUITE), "Epochs over networks, modelled")
    assert lines["distpart multilevel"][:2] == ["4", "no network"]


def test_an_epoch_like_that_of_the_random_assignment_is_marked(tmp_path: Path) -> None:
    results = tmp_path / "results"
    for method, seconds, ordering in (("random", 0.02, 0.1), ("multilevel", 0.02, 0.6), ("fennel", 0.01, 0.6)):
        write(results, method, seconds, ordering, 300, ranks=2)
    lines = lines_of(page(results, SUITE), "Ranks on the parts of each assignment")
    assert all(cell.endswith("~") for cell in lines["distpart multilevel"][-2:])
    assert not any(cell.endswith("~") for cell in lines["distpart fennel"][-2:])


def test_a_model_that_memory_did_not_hold_has_no_line(tmp_path: Path) -> None:
    results, options = tmp_path / "results", {"ranks": 1, "replay": [4], "link": [1.25e8, 5e-5]}
    write(results, "random", 0.02, 0.1, 900, **options)
    write(results, "multilevel", 0.015, 0.6, 300, {"status": "not measured, oom: too many edges"}, **options)
    lines = lines_of(page(results, SUITE), "Epochs over networks, modelled")
    assert "distpart random" in lines and "distpart multilevel" not in lines
