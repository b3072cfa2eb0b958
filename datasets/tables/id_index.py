"""Index of node ids on disk, in buckets that fit into memory: from ids to row numbers of the node table."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from datasets.array_files import save_array
from datasets.randomness import hash_ids
from datasets.tables.columns import id_kind
from datasets.tables.out_of_core import Buckets
from datasets.tables.table import TableError, UserTable


class IdIndex:
    """Sorted (key, node number) pairs of the node table, one ``.npy`` file per bucket of keys.

    The key of an integer id is the id, that of a string its 64-bit hash. ``kind`` names which of the two.
    """

    def __init__(self, paths: list[Path], nodes: str, kind: str) -> None:
        self.paths, self.nodes, self.kind = paths, nodes, kind

    @property
    def buckets(self) -> int:
        """Number of buckets."""
        return len(self.paths)

    def find(self, bucket: int, keys: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return the node numbers of keys of one bucket, and a mask of the keys that no node has."""
        entries = np.load(self.paths[bucket], mmap_mode="r")  # a few keys read a few pages
        if not len(entries):
            return np.zeros(len(keys), dtype=np.int64), np.ones(len(keys), dtype=bool)
        places = np.minimum(np.searchsorted(entries[:, 0], keys), len(entries) - 1)
        return entries[places, 1], entries[places, 0] != keys

    def id_text(self, key: int) -> str:
        """Return the id of a key for an error; empty for strings, of which only the hash is stored."""
        return "" if self.kind == "strings" else f"{key}"


def write_index(keys: Buckets, folder: Path, nodes: str, kind: str) -> IdIndex:
    """Sort the (key, number) rows of each bucket into ``folder``; raises TableError for an id that appears twice."""
    index = IdIndex([], nodes, kind)
    for bucket, rows in enumerate(keys.drain()):
        entries = rows[np.lexsort((rows[:, 1], rows[:, 0]))]
        repeated = np.flatnonzero(entries[1:, 0] == entries[:-1, 0]) + 1
        if len(repeated):
            key, number = entries[repeated[np.argmin(entries[repeated, 1])]]
            node_id = f"id {index.id_text(key)}".strip()
            raise TableError(f"{nodes}: row {number + 1}: {node_id} appeared before: every node needs its own")
        index.paths.append(folder / f"index-{bucket}.npy")
        save_array(index.paths[-1], entries)
    return index


def buckets_of(keys: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """The bucket of each key, by a hash: ids may all be multiples of one number."""
    return (hash_ids(0, "bucket", keys) % np.uint64(count)).astype(np.int64)


def keys_of(table: UserTable, column: str) -> tuple[NDArray[np.int64], str]:
    """Return the keys of a column of ids, and their kind: integers or strings."""
    ids = table.ids(column)
    if id_kind(ids) == "integers":
        return ids.to_numpy(), "integers"
    from pandas.util import hash_array

    return hash_array(ids.to_numpy(zero_copy_only=False)).view(np.int64), "strings"
