"""The table of all records as CSV and Parquet."""

from pathlib import Path

import pandas
import pytest

from harness.store import files, frame
from tests import factory


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_export_holds_every_record(tmp_path: Path, ending: str) -> None:
    factory.write(tmp_path / "results", factory.record("agl"))
    factory.write(tmp_path / "results", factory.record("dgl", status="oom"))
    out = tmp_path / f"table{ending}"
    frame.write(frame.frame(files.find_records(tmp_path / "results")), out)
    table = pandas.read_csv(out) if ending == ".csv" else pandas.read_parquet(out)
    by_backend = table.set_index("config.backend.name")
    assert list(by_backend.status) == ["ok", "oom"]
    assert by_backend.loc["agl", "epochs.median_seconds"] == pytest.approx(0.1, rel=0.03)
    assert pandas.isna(by_backend.loc["dgl", "epochs.median_seconds"])
