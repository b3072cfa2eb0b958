"""Graphs of more chunks than the files that a process may have open at first."""

import subprocess
import sys

import pytest

from backends.distpart.files import columns
from backends.distpart.files.chunked import write_chunked
from backends.kernels.extension import extension
from tests.backends.distpart.graphs import stored_graph

pytestmark = pytest.mark.skipif(extension is None, reason="the kernels are not built")
FEW = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (100, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
from backends.distpart.commandline import main
sys.exit(main(sys.argv[1:]))
"""


def test_more_chunks_than_files_are_allowed_at_first(tmp_path):
    write_chunked(stored_graph(), tmp_path / "chunks", 40)
    arguments = ["partition", tmp_path / "chunks", "-p", 2, "-o", tmp_path / "out", "--name", "toy"]
    done = subprocess.run(
        [sys.executable, "-c", FEW, *map(str, arguments), "--method", "random"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_a_file_that_cannot_be_opened_is_not_called_damaged(tmp_path):
    (tmp_path / "a.npy").mkdir()
    with pytest.raises(IsADirectoryError):
        columns.mapped(tmp_path / "a.npy", "a.npy")
