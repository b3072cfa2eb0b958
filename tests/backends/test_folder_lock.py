"""A lock is held by one, also where its file goes while another waits for it."""

from fcntl import flock

import pytest

from backends import folder_lock
from backends.folder_lock import locked


def test_a_lock_whose_file_was_removed_meanwhile_is_taken_anew(tmp_path, monkeypatch):
    lock = tmp_path / "out.lock"
    waiting = []

    def after_the_holder_ends(file, operation):
        if not waiting:
            waiting.append(file)
            lock.unlink()  # the holder ends between the opening of the file and its lock
        flock(file, operation)

    monkeypatch.setattr(folder_lock.fcntl, "flock", after_the_holder_ends)
    with locked(tmp_path / "out"):
        assert lock.exists()
        with pytest.raises(BlockingIOError, match="another run works in"), locked(tmp_path / "out"):
            pass
    assert not lock.exists()
