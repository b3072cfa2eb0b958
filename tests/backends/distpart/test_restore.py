"""Restoring rows from a damaged partition: one sentence on what is wrong, and nothing is written."""

import json
import re

import numpy as np
import pytest

from backends.distpart.commandline import main
from backends.distpart.partition_graph import partition_graph
from backends.kernels.extension import extension
from datasets.partition.dgl_format import TensorRows, read_tensors, write_tensors
from tests.backends.distpart.graphs import stored_graph

pytestmark = pytest.mark.skipif(extension is None, reason="the kernels are not built")


def described(name, value):
    def change(folder):
        path = folder / "toy.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {name: value}))

    return change


def with_ids(ids):
    """Other original ids of the authors of a part, or none."""

    def change(folder):
        path = folder / "part1" / "orig_nids.dgl"
        tensors = {name: np.array(column) for name, column in read_tensors(path).items()}
        authors = tensors.pop("author")
        if ids is not None:
            tensors["author"] = ids(authors)
        write_tensors(path, {name: TensorRows.of(column) for name, column in tensors.items()})

    return change


DAMAGE = {
    "parts as text": (described("num_parts", "3"), r"toy\.json says num_parts=3: a whole number from 1 on"),
    "no parts": (described("num_parts", 0), r"toy\.json says num_parts=0: a whole number from 1 on"),
    "types in a list": (described("ntypes", ["author"]), r"says ntypes=\['author'\]: an object"),
    "relations as a number": (described("etypes", 4), r"says etypes=4: an object"),
    "no ids of the type": (with_ids(None), r"orig_nids\.dgl has ids of .*paper.*, not of author"),
    "ids below 0": (with_ids(lambda ids: ids - 30), r"orig_nids\.dgl has something else than ids .*author"),
    "ids that are fractions": (with_ids(lambda ids: ids / 2), r"orig_nids\.dgl has something else than ids .*author"),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_a_damaged_partition_is_refused_by_what_is_wrong(what, tmp_path, capsys):
    change, message = DAMAGE[what]
    partition_graph(stored_graph(1), "toy", 3, tmp_path / "out", part_method="random")
    change(tmp_path / "out")
    np.save(tmp_path / "rows.npy", np.zeros(30))
    arguments = ["restore", tmp_path / "out" / "toy.json", tmp_path / "rows.npy", "-o", tmp_path / "restored.npy"]
    assert main([*map(str, arguments), "--type", "author"]) == 2
    assert re.search(message, capsys.readouterr().err)
    assert not (tmp_path / "restored.npy").exists()
