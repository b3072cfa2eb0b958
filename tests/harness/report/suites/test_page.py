"""Pages of suites: names, widths of the paper's rows, failed cells."""

from dataclasses import replace
from pathlib import Path

import pytest

from harness.report.suites.page import sections
from harness.usage import UsageError
from tests import factory
from tests.harness.report.suite_cells import cell, page, parts_of


def test_the_papers_rows_are_as_wide_as_the_tables_that_they_stand_in(tmp_path: Path) -> None:
    results = tmp_path / "results"
    for name, scenario in (("agl_efficiency", "train"), ("agl_inference", "infer")):
        for engine, infer in (("agl", "graphinfer"), ("dgl", "full")):
            cell(results, engine, 0.1, name, backend={"infer": infer}, scenario={"name": scenario})
        assert "paper: " in page(results, name)
    part = next(record for record in parts_of(results) if record.suite.name == "agl_efficiency")
    wrong = replace(part, suite=replace(part.suite, paper={"overview": [["too", "few"]]}))
    with pytest.raises(UsageError, match=r"paper\.overview has 2 cells, its table 6"):
        sections(wrong)


def test_whole_epochs_and_first_batches_have_names_of_their_own(tmp_path: Path) -> None:
    for limit in (None, 8):
        training = {"batch_size": 1024, "batch_limit": limit}
        cell(tmp_path / "results", "agl", 0.1, "agl_efficiency", training=training)
    text = page(tmp_path / "results", "agl_efficiency")
    whole, part = "### cora, gat, batches of 1,024", "### cora, gat, batches of 1,024, the first 8 of an epoch"
    assert {f"{whole}, 2 layers", f"{part}, 2 layers"} < set(text.splitlines())


@pytest.mark.parametrize("suite", ["agl_effectiveness", "agl_cost", "distpart_scale"])
def test_a_suite_over_ones_own_tables_has_a_page(tmp_path: Path, suite: str) -> None:
    results = tmp_path / "results"
    scenario = {"name": "partition" if suite == "distpart_scale" else "train"}
    dataset = {"name": "tables", "options": {"nodes": "nodes.csv", "edges": {"follows": "edges.csv"}}}
    cell(results, "agl", 0.1, suite, dataset=dataset, scenario=scenario)
    failed = factory.record("dgl", status="oom", config=factory.config("dgl", 0, suite=suite, dataset=dataset))
    factory.write(results, failed)
    assert "tables, gat" in page(results, suite)


def test_records_without_a_suite_make_no_page_and_failed_cells_no_number(tmp_path: Path) -> None:
    results = tmp_path / "results"
    factory.write(results, factory.record("agl", 0, 0.1))
    values = factory.config("dgl", 0, suite="agl_efficiency")
    factory.write(results, factory.record("dgl", 0, status="oom", config=values))
    (record,) = parts_of(results)
    assert [section.title for section in sections(record)] == ["All cells"]
    text = page(results, "agl_efficiency")
    assert "✗ oom" in text
    assert "nan" not in text
