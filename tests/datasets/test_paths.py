"""The folders of a data set's files, and the order in which they are searched."""

import os
from pathlib import Path

import pytest

from datasets.paths import data_folders, dataset_folder, default_cache, find_files


def test_files_are_searched_in_order_and_taken_from_one_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second, cache = (tmp_path / name for name in ("first", "second", "cache"))
    monkeypatch.setenv("HARNESS_DATA", os.pathsep.join([str(first), str(second)]))
    assert data_folders() == [first, second]
    places = [dataset_folder("set", cache), second, second / "family", first, first / "family", first / "set"]
    files = None
    for place in places:
        place.mkdir(parents=True, exist_ok=True)
        (place / "a").touch()
        assert find_files("set", "family", ["a", "b"], cache) == files
        (place / "b").touch()
        files = {"a": place / "a", "b": place / "b"}
        assert find_files("set", "family", ["a", "b"], cache) == files


def test_the_cache_is_the_folder_of_the_environment_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path))
    assert default_cache() == tmp_path
    monkeypatch.delenv("HARNESS_CACHE")
    assert default_cache() == Path.home() / ".cache" / "gnn-harness"
