"""Upgrades of records: versions are chained, and a missing step changes no file."""

from pathlib import Path

import pytest

from harness.store import files, upgrade
from harness.store.record import RecordError
from tests import factory


def test_upgraders_are_chained(tmp_path: Path) -> None:
    chain = {
        1: lambda old: old | {"facts": {"steps": [1]}},
        2: lambda old: old | {"facts": {"steps": [*old["facts"]["steps"], 2]}},
    }
    path = factory.write(tmp_path, factory.record(validation=[[epoch, 1.0, 0.5] for epoch in range(3000)]))
    assert upgrade.upgrade_folder(tmp_path) == []
    assert upgrade.upgrade_folder(tmp_path, chain, 3) == [path]
    record = files.read_json(path)
    assert record["schema_version"] == 3
    assert record["facts"] == {"steps": [1, 2]}
    assert len(files.read_json(files.side_path(path))["validation"]) == 3000


def test_an_upgrade_without_a_step_changes_nothing(tmp_path: Path) -> None:
    path = factory.write(tmp_path, factory.record())
    before = path.read_bytes()
    with pytest.raises(RecordError, match="no upgrader leads from schema version 2 to 3"):
        upgrade.upgrade_folder(tmp_path, {1: lambda old: old}, 3)
    assert path.read_bytes() == before
