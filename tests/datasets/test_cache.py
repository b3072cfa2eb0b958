"""The cache of prepared graphs: its bound, locks of running processes, what killed ones leave, links."""

import ctypes
import errno
import json
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datasets import cache
from datasets.graph import Graph
from datasets.prepare import prepare_graph
from harness.planning.schema import DatasetConfig, OrderConfig

NONE = OrderConfig("none")
PREPARE = """
import sys, time
from pathlib import Path
from datasets.prepare import prepare_graph
from harness.planning.schema import DatasetConfig, OrderConfig
dataset = DatasetConfig("uug", {"nodes": int(sys.argv[2]), "features": 4})
folder, _ = prepare_graph(dataset, OrderConfig(), Path(sys.argv[1]))
print(folder, flush=True)
time.sleep(float(sys.argv[3]))
"""
HALF = """
import sys, time
from pathlib import Path
from datasets.files import atomic_folder
with atomic_folder(Path(sys.argv[1])) as folder:
    (folder / "indptr.npy").write_bytes(bytes(1000))
    print(folder, flush=True)
    time.sleep(60)
"""


def entry(folder: Path, name: str, size: int, used: float) -> Path:
    """Write an entry as large as ``size``, last used at a time."""
    path = folder / "prepared" / f"{hash(name) % 16**12:064x}" / name
    path.mkdir(parents=True)
    facts = json.dumps({"name": name})
    (path / "graph.json").write_text(facts)
    (path / "features.npy").write_bytes(bytes(size - len(facts)))
    os.utime(path, (used, used))
    return path


def small(nodes: int) -> DatasetConfig:
    return DatasetConfig("uug", {"nodes": nodes, "features": 4})


def started(code: str, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", code, *map(str, arguments)], stdout=subprocess.PIPE, text=True)


def line_of(process: subprocess.Popen[str]) -> Path:
    assert process.stdout is not None
    return Path(process.stdout.readline().strip())


@settings(max_examples=40)
@given(
    sizes=st.lists(st.tuples(st.integers(100, 5000), st.integers(0, 50), st.booleans()), max_size=8),
    new=st.integers(0, 6000),
    bound=st.integers(0, 12000),
)
def test_the_least_recently_used_go_until_the_bound_holds_and_used_ones_stay(
    sizes: list[tuple[int, int, bool]], new: int, bound: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("cache")
    paths = [entry(folder, f"o{place}", size, used) for place, (size, used, _) in enumerate(sizes)]
    locked = {path for path, (*_, locked) in zip(paths, sizes, strict=True) if locked}
    for path, (_, used, _) in zip(paths, sizes, strict=True):
        if path in locked:
            assert cache.use(path)
            os.utime(path, (used, used))
    before = cache.entries(folder)
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv(cache.LIMIT, repr(bound / 2**30))
        removed = {one.path for one in cache.make_room(folder, new)}
    after = {one.path for one in cache.entries(folder)}
    assert removed | after == set(paths) and not removed & after and locked <= after
    unlocked = [one for one in before if one.path not in locked]
    assert [one.path in removed for one in unlocked] == sorted((one.path in removed for one in unlocked), reverse=True)
    total = new + sum(one.size for one in before)
    for one in unlocked:
        assert (one.path in removed) == (total > bound)
        total -= one.size if one.path in removed else 0
    for path in locked:
        os.close(cache._locks.pop(path))


def test_a_new_graph_displaces_unused_ones_but_none_that_a_process_uses(
    cache_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with started(PREPARE, cache_folder, 500, 60) as process:
        used = line_of(process)
        old = entry(cache_folder, "old", 5000, 1.0)
        monkeypatch.setenv(cache.LIMIT, "0")
        folder, _ = prepare_graph(small(501), NONE, cache_folder)
        assert used.is_dir() and folder.is_dir() and not old.exists()
        Graph.load(used)
        process.kill()
    monkeypatch.setenv(cache.LIMIT, "0")
    prepare_graph(small(502), NONE, cache_folder)
    assert not used.exists() and folder.is_dir()


def test_what_a_killed_process_left_is_removed_and_a_living_ones_is_not(cache_folder: Path) -> None:
    place = cache_folder / "prepared" / ("ab" * 32) / "none"
    with started(HALF, place) as process:
        folder = line_of(process)
        (entry,) = cache.entries(cache_folder)
        assert entry.half_written and cache.in_use(entry) and not cache.remove(entry)
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert (folder / "indptr.npy").is_file()
    assert [one.path for one in cache.make_room(cache_folder, 0)] == [folder]
    assert not folder.exists() and not place.parent.exists()


def test_a_folder_that_was_made_a_moment_ago_is_left_to_its_process(cache_folder: Path) -> None:
    folder = cache_folder / "prepared" / ("ab" * 32) / ".none.x"
    folder.mkdir(parents=True)
    assert cache.make_room(cache_folder, 0) == []
    os.utime(folder, (time.time() - 3600,) * 2)
    assert [one.path for one in cache.make_room(cache_folder, 0)] == [folder]


def test_nothing_outside_the_cache_and_nothing_unknown_is_touched(cache_folder: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    precious = entry(mine, "precious", 500, 1.0)
    inside = entry(cache_folder, "inside", 500, 1.0)
    (inside / "link").symlink_to(precious)
    prepared = cache_folder / "prepared"
    (prepared / ("cd" * 32)).symlink_to(precious.parent)
    (prepared / ("ef" * 32)).mkdir()
    (prepared / ("ef" * 32) / "none").symlink_to(precious)
    (prepared / "notes").mkdir()
    (prepared / "notes" / "file").write_text("mine")
    assert [one.path for one in cache.remove_unused(cache_folder)] == [inside]
    assert (precious / "features.npy").is_file() and (prepared / "notes" / "file").is_file()
    prepared.rename(tmp_path / "elsewhere")
    prepared.symlink_to(mine / "prepared")
    assert cache.entries(cache_folder) == [] and cache.remove_unused(cache_folder) == []


def test_two_processes_that_prepare_at_once_get_the_same_graph(cache_folder: Path) -> None:
    processes = [started(PREPARE, cache_folder, 400, 0) for _ in range(2)]
    folders = {line_of(process) for process in processes}
    assert [process.wait() for process in processes] == [0, 0]
    (folder,) = folders
    assert Graph.load(folder).nodes == 400
    assert [one.path for one in cache.entries(cache_folder)] == [folder]
    for process in processes:
        assert process.stdout is not None
        process.stdout.close()


def test_a_graph_removed_between_writing_and_use_is_written_again(
    cache_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, _ = prepare_graph(small(510), NONE, cache_folder)
    os.close(cache._locks.pop(folder))
    from datasets import prepare

    def removed_at_first(path: Path) -> bool:
        monkeypatch.setattr(prepare, "use", cache.use)
        assert cache.remove(cache.entries(cache_folder)[0])
        return cache.use(path)

    monkeypatch.setattr(prepare, "use", removed_at_first)
    assert prepare_graph(small(510), NONE, cache_folder)[0] == folder and folder.is_dir()


def test_a_full_disk_takes_unused_graphs_before_it_is_an_error(
    cache_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, save = entry(cache_folder, "old", 5000, 1.0), Graph.save

    def full(graph: Graph, folder: Path) -> None:
        if old.exists():
            raise OSError(errno.ENOSPC, "No space left on device")
        save(graph, folder)

    monkeypatch.setattr(Graph, "save", full)
    folder, _ = prepare_graph(small(520), NONE, cache_folder)
    assert folder.is_dir() and not old.exists()
    monkeypatch.setattr(Graph, "save", lambda graph, folder: (_ for _ in ()).throw(OSError(errno.ENOSPC, "full")))
    with pytest.raises(OSError, match="full"):
        prepare_graph(small(521), NONE, cache_folder)
    assert folder.is_dir()
    assert [one for one in cache.entries(cache_folder) if one.half_written] == []


@pytest.mark.parametrize("text", ["many", "-1", "nan", "1,5"])
def test_a_bound_that_is_no_number_is_an_error(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(cache.LIMIT, text)
    with pytest.raises(ValueError, match=f"{cache.LIMIT}={text} is not allowed: give a number of GiB"):
        cache.limit(tmp_path)


def test_the_default_bound_is_a_part_of_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(cache.LIMIT, raising=False)
    assert 0 < cache.limit(tmp_path / "absent") <= 50 * 2**30


def test_downloads_go_unless_they_are_being_fetched(cache_folder: Path) -> None:
    import fcntl

    folder = cache_folder / "datasets" / "cora"
    folder.mkdir(parents=True)
    (folder / "ind.cora.x").write_bytes(bytes(10))
    (download,) = cache.downloads(cache_folder)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert not cache.remove_download(download)
    assert cache.remove_download(download) and not folder.exists()


def test_a_cache_that_cannot_be_written_still_serves_its_graphs(tmp_path: Path) -> None:
    """Folders without the right to write stand in for a read-only disk; root gives up its power to write anyway."""
    prctl, drop_from_bounding_set, override_permissions = ctypes.CDLL(None).prctl, 24, 1
    path, _ = prepare_graph(small(530), NONE, tmp_path)
    places = [tmp_path, *tmp_path.rglob("*")]
    for place in places:
        place.chmod(0o555 if place.is_dir() else 0o444)
    outputs = []
    for nodes in (530, 531):
        command = [sys.executable, "-c", PREPARE, str(tmp_path), str(nodes), "0"]
        drop = partial(prctl, drop_from_bounding_set, override_permissions)
        outputs.append(subprocess.run(command, capture_output=True, text=True, preexec_fn=drop))
    for place in places:
        place.chmod(0o755)
    assert outputs[0].stdout.strip() == str(path), outputs[0].stderr
    assert "PermissionError" in outputs[1].stderr
