"""The summary over tables: means of good ratios, and how many were left out."""

from pathlib import Path
from typing import Any

from harness.report import tables
from tests import factory
from tests.harness.report.labelled_rows import rows_by_label


def _table(results: Path, ours: float, loaded: str = "", **changes: Any) -> list[Any]:
    """Rows of ours and of a peer that takes a second; the engine ``loaded`` had other programs beside it."""
    for backend, seconds in (("agl", ours), ("dgl", 1.0)):
        record = factory.record(backend, 0, seconds)
        if backend == loaded:
            process = {"prepare": {}, "warmup": [0.1], "first_call": 0.1, "load": 1.0, "tolerated_load": 0.1}
            record |= {"processes": [process]}
        factory.write(results, changes.get("processes", factory.in_fresh_processes)(record))
    return list(rows_by_label(results).values())


def test_means_leave_out_ratios_in_doubt_on_either_side_and_count_them(tmp_path: Path) -> None:
    summary = tables.summary(
        [
            _table(tmp_path / "good", 0.5),
            _table(tmp_path / "ours", 0.1, "agl"),
            _table(tmp_path / "peer", 0.1, "dgl"),
            _table(tmp_path / "look", 0.1, processes=dict),
        ]
    )
    ours = next(line for line in summary.rows if line[0] == "agl")
    assert [str(cell) for cell in ours[-3:]] == ["1", "3", "0"]
    assert 0.48 < float(str(ours[1])) < 0.52
