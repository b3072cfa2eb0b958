"""Files and folders appear whole or not at all."""

from pathlib import Path

import pytest

from datasets.files import atomic_folder


def test_what_fails_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(OSError), atomic_folder(tmp_path / "graph") as folder:
        (folder / "half.npy").write_bytes(b"half")
        raise OSError(28, "No space left on device")
    assert list(tmp_path.iterdir()) == []
