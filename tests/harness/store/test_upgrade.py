"""Upgrades of records: versions are chained, damaged files stay as they are, the rest is upgraded."""

import json
import shutil
from pathlib import Path

import pytest

from harness.store import files, upgrade
from harness.store.left_out import LeftOut
from harness.store.record import RecordError
from harness.store.upgraders import upgrade as upgraded
from harness.store.versions import SCHEMA_VERSION

RESULTS = Path(__file__).resolve().parents[3] / "results"


def test_upgraders_are_chained() -> None:
    chain = {
        1: lambda old: old | {"facts": {"steps": [1]}},
        2: lambda old: old | {"facts": {"steps": [*old["facts"]["steps"], 2]}},
    }
    old = {"schema_version": 1}
    assert upgraded(old, chain, 3) == {"schema_version": 3, "facts": {"steps": [1, 2]}}
    assert old == {"schema_version": 1}
    assert upgraded({"schema_version": 3}, chain, 3) == {"schema_version": 3}
    with pytest.raises(RecordError, match="no upgrader leads from schema version 2 to 3"):
        upgraded(old, {1: lambda old: old}, 3)
    for version, advice in ((4, "update the harness"), ("1", "allowed are 1 to 3"), (0, "allowed"), (True, "allowed")):
        with pytest.raises(RecordError, match=advice):
            upgraded({"schema_version": version}, chain, 3)


def test_a_folder_is_upgraded_but_for_its_damaged_records(tmp_path: Path) -> None:
    shutil.copytree(
        RESULTS,
        tmp_path / "results",
        ignore=lambda folder, names: (
            []
            if "cora" in folder
            else [
                name
                for name in names
                if name in ("ppi", "mesh", "rmat", "uug", "cnr_2000", "ego_twitter", "ppi_recovered")
            ]
        ),
    )
    paths = list(files.record_paths(tmp_path / "results"))
    old = {path: files.read_record(path) for path in paths}
    cut, *whole = [path for path in paths if json.loads(path.read_text())["schema_version"] < SCHEMA_VERSION]
    todays = {path: path.read_bytes() for path in paths if path not in (cut, *whole)}
    cut.write_bytes(cut.read_bytes()[:500])
    left_out = LeftOut(quiet=True)
    assert upgrade.upgrade_folder(tmp_path / "results", left_out) == whole
    assert set(left_out.files) == {cut} and cut.stat().st_size == 500
    for path in whole:
        assert json.loads(path.read_text())["schema_version"] == SCHEMA_VERSION
        new = files.read_record(path)
        assert {key: value for key, value in new.items() if key != "digest"} == old[path]
    assert upgrade.upgrade_folder(tmp_path / "results", left_out) == []
    assert todays and all(path.read_bytes() == written for path, written in todays.items())
