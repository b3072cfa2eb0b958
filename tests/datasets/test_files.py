"""Files and folders that are written atomically."""

from pathlib import Path

import pytest

from datasets.files import atomic_file, atomic_folder, write_atomic


def test_a_folder_that_fails_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(OSError), atomic_folder(tmp_path / "graph") as folder:
        (folder / "half.npy").write_bytes(b"half")
        raise OSError(28, "No space left on device")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_another_process_completed_stays(tmp_path: Path) -> None:
    with atomic_folder(tmp_path / "graph") as folder:
        (folder / "a.npy").write_bytes(b"second")
        (tmp_path / "graph").mkdir()
        (tmp_path / "graph" / "a.npy").write_bytes(b"first")
    assert [path.name for path in tmp_path.iterdir()] == ["graph"]
    assert (tmp_path / "graph" / "a.npy").read_bytes() == b"first"


def test_a_file_in_the_place_of_a_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "graph").write_text("a file")
    with pytest.raises(OSError), atomic_folder(tmp_path / "graph"):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["graph"]


def test_a_file_is_replaced_at_the_end_of_the_block(tmp_path: Path) -> None:
    path = tmp_path / "members.csv"
    path.write_text("old")
    with atomic_file(path) as temporary:
        temporary.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    with pytest.raises(ValueError), atomic_file(path) as temporary:
        temporary.write_text("half")
        raise ValueError
    assert path.read_text() == "new" and list(tmp_path.iterdir()) == [path]


def test_files_written_together_appear_together(tmp_path: Path) -> None:
    first, second = tmp_path / "a.json", tmp_path / "absent" / "b.json"
    with pytest.raises(OSError):
        write_atomic({first: "1", second: "2"})
    assert list(tmp_path.iterdir()) == []
    write_atomic({first: "1", tmp_path / "b.json": "2"})
    assert sorted(path.read_text() for path in tmp_path.iterdir()) == ["1", "2"]


def test_writers_with_the_same_process_number_write_to_different_names(tmp_path: Path) -> None:
    path = tmp_path / "members.csv"
    with atomic_file(path) as first, atomic_file(path) as second:  # as processes of two machines that share a disk
        first.write_text("first")
        second.write_text("second")
    assert path.read_text() == "first" and list(tmp_path.iterdir()) == [path]
