"""Records of three engines; reports of a few aggregations and a training epoch."""

from pathlib import Path
from typing import Any

import pytest

from harness.report.write import write_reports
from tests import factory
from tests.harness.report.aggregations import LIMITS, aggregation, text_of

ENGINES = {"agl": 0.01, "dgl": 0.02, "pyg": 0.03}


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Three engines on three seeds, one of them also without a result."""
    folder = tmp_path / "results"
    for seed in range(3):
        for backend, seconds in ENGINES.items():
            factory.write(folder, factory.record(backend, seed, seconds))
        broken = factory.config("pyg", seed, backend={"variant": "compile"})
        factory.write(folder, factory.record("pyg", seed, status="oom", config=broken))
    return folder


@pytest.fixture
def page(tmp_path: Path) -> tuple[Path, str]:
    """Our engine 2x as fast as DGL in one table, half as fast in a small one, 8x for gat, and a training epoch."""
    results = tmp_path / "results"
    for backend, seconds in (("blocksparse", 0.01), ("dgl", 0.02), ("reference", 0.05)):
        aggregation(results, backend, seconds)
    random: dict[str, Any] = {"order": {"name": "random"}}
    for backend, seconds in (("blocksparse", 0.04), ("dgl", 0.02)):
        aggregation(results, backend, seconds, nnz=100, **random)
    attention: dict[str, Any] = {"model": {"name": "gat", "hidden": 16, "heads": 8}}
    for backend, seconds in (("blocksparse", 0.01), ("dgl", 0.08)):
        aggregation(results, backend, seconds, **attention)
    for backend, seconds in (("agl", 0.01), ("dgl", 0.03)):
        factory.write(results, factory.in_fresh_processes(factory.record(backend, 0, seconds)) | {"limits": LIMITS})
    write_reports(results, tmp_path / "reports")
    return tmp_path, text_of(tmp_path / "reports", "kernels")
