"""Arrays in files: the bytes of numpy, and an error with its cause on a full disk, stood in for by a limit."""

import errno
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from datasets.array_files import append_array, create_array, save_array


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(array=arrays.arrays(st.sampled_from(["<i8", "f4", "?", "u2"]), arrays.array_shapes(min_dims=0, min_side=0)))
def test_the_bytes_are_those_of_numpy(tmp_path: Path, array: np.ndarray) -> None:
    save_array(tmp_path / "ours.npy", array.T)
    np.save(tmp_path / "numpys.npy", np.asarray(array.T, order="C"))
    assert (tmp_path / "ours.npy").read_bytes() == (tmp_path / "numpys.npy").read_bytes()


@pytest.mark.parametrize("count", [200, 5000, 1 << 18])
def test_a_full_disk_is_an_error_with_its_cause(tmp_path: Path, count: int) -> None:
    """Of arrays below the buffers of the C library too."""
    values = np.arange(count)
    with files_of_at_most(values.nbytes // 2), pytest.raises(OSError) as saved:
        save_array(tmp_path / "values.npy", values)
    with (
        files_of_at_most(values.nbytes // 2),
        pytest.raises(OSError) as appended,
        (tmp_path / "v.bin").open("wb") as file,
    ):
        append_array(file, values)
    assert {saved.value.errno, appended.value.errno} <= {errno.ENOSPC, errno.EFBIG}


def test_blocks_of_a_mapped_array_are_reserved(tmp_path: Path) -> None:
    array = create_array(tmp_path / "array.npy", np.float32, (1000, 300))
    assert (tmp_path / "array.npy").stat().st_blocks * 512 >= array.nbytes
    assert create_array(tmp_path / "empty.npy", np.int8, (0,)).shape == (0,)
    path = tmp_path / "large.npy"
    with files_of_at_most(1 << 20), pytest.raises(OSError):
        create_array(path, np.float32, (1000, 1000))
