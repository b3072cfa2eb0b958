"""Places for new files, tried before anything is measured."""

from pathlib import Path

import pytest

from harness.store.writable import check_writable
from harness.usage import UsageError


def test_a_folder_is_no_file_of_parameters(tmp_path: Path) -> None:
    folder, results = tmp_path / "best", tmp_path / "results"
    folder.mkdir()
    with pytest.raises(UsageError, match=r"scenario\.save_state=.*best is a folder: name a file in it, like .*npz"):
        check_writable(results, [], [None, str(folder)])
    (folder / "old.npz").touch()
    check_writable(results, [], [None, str(folder / "old.npz"), str(folder / "new.npz")])
