"""``list cache`` and ``clean``: what the cache holds, what is removed from it, exit codes."""

import time
from pathlib import Path

import pytest

from datasets import cache
from harness.commands import clean
from harness.commands import list as listing
from tests.datasets.test_cache import entry

DAY = 86400


@pytest.fixture
def entries(cache_folder: Path) -> dict[str, Path]:
    """Three graphs: one used now by this process, one of today, one of last week; a half-written one, a download."""
    now = time.time()
    paths = {
        name: entry(cache_folder, name, 2048, now - age)
        for name, age in (("old", 7 * DAY), ("new", 60), ("used", 7 * DAY))
    }
    assert cache.use(paths["used"])
    paths["half"] = paths["new"].parent / ".rcm.x"
    paths["half"].mkdir()
    (paths["half"] / "indptr.npy").write_bytes(bytes(10))
    paths["download"] = cache_folder / "datasets" / "cora"
    paths["download"].mkdir(parents=True)
    return paths


def left(paths: dict[str, Path]) -> set[str]:
    return {name for name, path in paths.items() if path.exists()}


def test_the_list_names_every_graph_with_total_and_bound(
    entries: dict[str, Path], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(cache.LIMIT, "3")
    assert listing.main(["cache"]) == 0
    text = capsys.readouterr().out
    assert {line.split()[0] for line in text.splitlines()[1:]} == {"old", "new", "used", "?", "cora", "total"}
    assert text.count("in use") == 1 and text.count("half written") == 1
    assert "prepared, of at most 3.0 GiB" in text


@pytest.mark.parametrize(
    ("arguments", "remaining"),
    [
        ([], {"old", "new", "used", "download"}),
        (["--older-than", "1"], {"new", "used", "download"}),
        (["--all"], {"used", "download"}),
        (["--all", "--downloads"], {"used"}),
        (["--all", "--downloads", "--dry-run"], {"old", "new", "used", "half", "download"}),
    ],
)
def test_what_is_removed(arguments: list[str], remaining: set[str], entries: dict[str, Path]) -> None:
    assert clean.main(arguments) == 0
    assert left(entries) == remaining


def test_without_options_the_bound_is_applied(
    entries: dict[str, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(cache.LIMIT, "many")
    assert clean.main([]) == 2
    assert f"{cache.LIMIT}=many is not allowed" in capsys.readouterr().err
    monkeypatch.setenv(cache.LIMIT, repr(5000 / 2**30))
    assert clean.main([]) == 0
    assert left(entries) == {"new", "used", "download"}


@pytest.mark.parametrize("days", ["x", "-1", "nan", "inf"])
def test_a_wrong_number_of_days_is_refused(days: str) -> None:
    with pytest.raises(SystemExit) as ended:
        clean.main(["--older-than", days])
    assert ended.value.code == 2


def test_an_empty_cache_is_no_error(cache_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cache_folder.rmdir()
    assert clean.main(["--all", "--downloads"]) == 0
    assert "nothing to remove" in capsys.readouterr().out
