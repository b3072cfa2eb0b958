"""AGL's optimizations one by one, the peers, and the break-even of preparation."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests import factory
from tests.harness.report.suite_cells import all_lines, cell, lines_of, number, page


def test_efficiency_shows_ideas_peers_and_break_even(tmp_path: Path) -> None:
    results = tmp_path / "results"
    dataset = factory.DATASET | {"counts": factory.DATASET["counts"] | {"train": 1000}}
    cell(results, "agl", 0.5, "agl_efficiency", prepare={"parse": 9.0, "structure": 1.0}, backend={"source": "graph"})
    overlapped = {"facts": {"overlaps": True}, "backend": {"source": "graph", "pipeline_from": 1}}
    cell(results, "agl", 0.8, "agl_efficiency", **overlapped)
    for name, seconds in (("base", 4.0), ("pruning", 2.0)):
        cell(results, "agl", seconds, "agl_efficiency", names=(name,), ablations={name: True})
    scattered = {"ablations": {"base": True}, "backend": {"unpartitioned": "scattered"}}
    cell(results, "agl", 12.0, "agl_efficiency", names=("base",), **scattered)
    cell(results, "agl", 2.5, "agl_efficiency", names=("partition",), ablations={"partition": True})
    shards: dict[str, Any] = {"dataset": {"name": "cora", "options": {}}, "backend": {"source": "graphfeature"}}
    facts = {"records": 500, "bytes_on_disk": 2**30, "duplication": 12.0}
    values = factory.config("agl", 0, backend=shards["backend"], suite="agl_efficiency")
    record = factory.record("agl", 0, 0.8, config=values) | {"facts": facts, "dataset": dataset}
    factory.write(results, record | {"prepare": {"import": 5.0, "flatten": 3.0, "model": 0.2}}, folder="shards")
    cell(results, "dgl", 1.0, "agl_efficiency", prepare={"convert": 0.2})
    cell(results, "pyg", 3.0, "agl_efficiency", prepare={"convert": 0.2})
    text = page(results, "agl_efficiency")
    claims = lines_of(text, "Ours")  # the first table stands above all headings
    assert number(next(iter(line for name, line in claims.items() if name.startswith("cora")))[4]) == pytest.approx(
        2, rel=0.1
    )
    rows = lines_of(text, "The paper's ideas")["cora, gat, full batch, 2 layers"]
    assert [number(value) for value in rows] == pytest.approx([4, 2, 1.6, 0.33, 5, 8], rel=0.1)
    assert "| base [s] | +pruning | +partition | base, scattered | all | default |" in text
    assert re.search(r"helps GCN and SAGE more than GAT \| gat 4\.\d+x \| gat 1\.\d+x \|", text)
    assert re.search(r"speed beside PyG.*\| 5 to 13 times \| (5|6)\.?\d* times \| (1.9|2|2.0)\d* times", text)
    even = {line[0]: line[1:] for line in all_lines(text, "Preparation")}
    from_memory = next(line for name, line in even.items() if name.endswith("source=graph") and line[0] == "1")
    assert number(from_memory[-1]) == pytest.approx((1.0 - 0.2) / 0.5, rel=0.2)
    prepared, flattened, size, copies, *_ = next(line for name, line in even.items() if "graphfeature" in name)
    assert number(prepared) == pytest.approx(2 * 3.0 + 0.2)  # half of the targets were flattened
    assert (flattened, size, copies) == ("6", "2.00 GiB", "12.0")
    assert "Baselines of early 2020" in text


def test_the_pipeline_is_compared_by_form_of_reading(tmp_path: Path) -> None:
    results = tmp_path / "results"
    for pages, overlapped in (("warm", {1: 0.5, 2: 0.6}), ("cold", {1: 0.4, 2: 0.25})):
        backend = {"source": "graphfeature", "features": "embedded", "page_cache": pages}
        cell(results, "agl", 0.5, "agl_efficiency", backend=backend)
        for loaders, seconds in overlapped.items():
            options = backend | {"loaders": loaders, "pipeline_from": 1}
            cell(results, "agl", seconds, "agl_efficiency", backend=options, facts={"overlaps": True})
    cell(results, "agl", 0.3, "agl_efficiency", backend={"source": "graph"})
    text = page(results, "agl_efficiency")
    assert "| batches from | threads | without [s] | 1 loader | 2 loaders |" in text
    lines = {line[0]: line[1:] for line in all_lines(text, "The pipeline")}
    assert [number(value) for value in lines["cold shards"][2:]] == pytest.approx([1.25, 2.0], rel=0.1)
    assert "With batches from cold shards it pays from 2 threads on" in text and "from graph in memory" not in text
