"""Columns of Parquet files, read in place: equal to pyarrow's, damaged files refused."""

import zlib

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyarrow import parquet

from backends.agl.flat.shards import LAYOUT
from backends.kernels.extension import extension
from backends.kernels.parquet import UncompressedParquet


@given(st.binary(max_size=400))
@example(b"")
@example(bytes(range(256)) * 5 + b"tail")
def test_checksums_are_those_of_zlib(data):
    assert extension.crc32(np.frombuffer(data, dtype=np.uint8)) == zlib.crc32(data)


def written(path, strings, width, group, page, **options):
    """A file as GraphFlat writes them: ids, byte strings and rows of ``width`` numbers."""
    values = np.random.default_rng(len(strings)).normal(size=(len(strings), width)).astype(np.float32)
    ids = np.arange(len(strings)) * 3 - 5
    table = pa.table(
        {
            "id": ids,
            "graph_feature": pa.array(strings, type=pa.large_binary()),
            "features": pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), width),
        }
    )
    parquet.write_table(table, path, row_group_size=group, data_page_size=page, **(LAYOUT | options))
    return ids, values


@given(
    strings=st.lists(st.binary(max_size=90), min_size=1, max_size=60),
    width=st.integers(1, 5),
    group=st.integers(1, 70),
    page=st.sampled_from([1, 64, 4096]),
)
def test_columns_equal_what_pyarrow_wrote(strings, width, group, page, tmp_path_factory):
    path = tmp_path_factory.mktemp("pages") / "pages.parquet"
    ids, values = written(path, strings, width, group, page)
    file = UncompressedParquet(path)
    assert [bytes(string) for string in file.strings("graph_feature").split()] == strings
    assert file.numbers("id", "INT64").tolist() == ids.tolist()
    assert file.numbers("features", "FLOAT").tolist() == values.ravel().tolist()
    assert file.bytes_read > sum(map(len, strings)) + values.nbytes + ids.nbytes


@given(at=st.floats(0, 1, exclude_max=True), change=st.integers(1, 255))
def test_a_damaged_byte_is_found(at, change, tmp_path_factory):
    path = tmp_path_factory.mktemp("pages") / "pages.parquet"
    strings = [bytes([i]) * 50 for i in range(40)]
    written(path, strings, 2, 16, 256)
    column = parquet.read_metadata(path).row_group(1).column(1)
    place = column.data_page_offset + int(at * column.total_compressed_size)
    damaged = bytearray(path.read_bytes())
    damaged[place] ^= change
    path.write_bytes(damaged)
    try:
        actual = [bytes(string) for string in UncompressedParquet(path).strings("graph_feature").split()]
    except ValueError:
        return
    assert actual == strings  # a byte of a page's header that says nothing about its values


@pytest.mark.parametrize("options", [{"compression": "snappy"}, {"use_dictionary": True}])
def test_other_layouts_are_refused(options, tmp_path):
    written(tmp_path / "pages.parquet", [b"same"] * 50, 2, 50, 4096, **options)
    with pytest.raises(ValueError, match="plain values"):
        UncompressedParquet(tmp_path / "pages.parquet").strings("graph_feature")


def test_a_missing_value_is_refused(tmp_path):
    parquet.write_table(pa.table({"graph_feature": pa.array([b"a", None, b"c"])}), tmp_path / "pages.parquet", **LAYOUT)
    with pytest.raises(ValueError, match="page"):
        UncompressedParquet(tmp_path / "pages.parquet").strings("graph_feature")
    with pytest.raises(KeyError, match="no column id"):
        UncompressedParquet(tmp_path / "pages.parquet").numbers("id", "INT64")
