"""Tables with a file per type: one typed graph; bad input names its file."""

import numpy as np
import pytest

from datasets.registry import load_dataset
from datasets.tables.identity import identified
from datasets.tables.table import TableError

FILES = {
    "author.csv": "id,age\nann,30\nbob,40\ncem,50\n",
    "paper.csv": "id,year,label,split\n7,1999,0,train\n9,2001,1,test\n",
    "writes.csv": "source,target\nann,7\ncem,9\nann,9\n",
    "cites.csv": "source,target\n7,9\n7,7\n",
}


def options_of(folder, **files):
    for name, text in (FILES | files).items():
        (folder / name).write_text(text)
    return {
        "nodes": {"author": str(folder / "author.csv"), "paper": str(folder / "paper.csv")},
        "edges": {"author:writes:paper": str(folder / "writes.csv"), "paper:cites:paper": str(folder / "cites.csv")},
    }


def test_types_are_contiguous_and_relations_are_numbered(tmp_path):
    graph = load_dataset("tables", options_of(tmp_path), tmp_path)
    assert graph.schema.node_types == ("author", "paper")
    assert list(map(str, graph.schema.relations)) == ["author:writes:paper", "paper:cites:paper"]
    assert graph.node_types.tolist() == [0, 0, 0, 1, 1]
    ends = graph.csr.indices.tolist(), graph.csr.destinations.tolist()
    edges = sorted(zip(*ends, graph.edge_types.tolist(), strict=True))
    assert edges == [(0, 3, 0), (0, 4, 0), (2, 4, 0), (3, 4, 1)]
    assert graph.self_loops_dropped == 1
    assert graph.labels.tolist() == [-1, -1, -1, 0, 1]
    assert graph.split.tolist() == [3, 3, 3, 0, 2]
    np.testing.assert_array_equal(graph.features[:, 0], [30, 40, 50, 1999, 2001])


def test_the_order_in_which_tables_are_named_does_not_change_the_graph(tmp_path):
    options = options_of(tmp_path)
    other = options | {role: dict(reversed(options[role].items())) for role in ("nodes", "edges")}
    graph, again = (load_dataset("tables", each, tmp_path) for each in (options, other))
    assert graph.schema == again.schema and graph.sha256 == again.sha256
    np.testing.assert_array_equal(graph.edge_types, again.edge_types)
    numbered = {"nodes": {1: options["nodes"]["author"], "paper": options["nodes"]["paper"]}}
    assert list(identified(options | numbered)["nodes"]) == ["1", "paper"]


def test_a_relation_may_have_no_edges(tmp_path):
    graph = load_dataset("tables", options_of(tmp_path, **{"writes.csv": "source,target\n"}), tmp_path)
    assert graph.schema is not None and graph.edge_types.tolist() == [1] and graph.csr.indices.tolist() == [3]


def test_another_file_is_another_data_set(tmp_path):
    options = options_of(tmp_path)
    first = identified(options)
    options_of(tmp_path, **{"cites.csv": "source,target\n9,7\n"})
    second = identified(options)
    assert first["sha256"] != second["sha256"]
    assert load_dataset("tables", second, tmp_path).schema is not None
    with pytest.raises(TableError, match="changed since the run began"):
        load_dataset("tables", first, tmp_path)


def test_features_that_differ_between_types_are_left_out_with_a_note(tmp_path):
    authors = {"author.csv": "id,a,b\nann,1,2\nbob,1,2\ncem,1,2\n"}
    graph = load_dataset("tables", options_of(tmp_path, **authors), tmp_path)
    assert graph.features is None
    assert any("features: left out" in note for note in graph.notes)
    assert not any("same place" in note for note in graph.notes)


def test_features_of_other_names_become_one_column_with_a_note(tmp_path):
    graph = load_dataset("tables", options_of(tmp_path), tmp_path)
    assert graph.features.shape[1] == 1
    assert any("same place" in note and "author: age; paper: year" in note for note in graph.notes)


@pytest.mark.parametrize(
    ("files", "changes", "message"),
    [
        ({"writes.csv": "source,target\ndan,7\n"}, {}, r"writes\.csv: row 1.*dan"),
        ({"paper.csv": "id\n7\n7\n"}, {}, r"paper\.csv: row 2: id"),
        ({}, {"edges": {"author:writes:book": "x.csv"}}, "names node type book"),
        ({}, {"edges": {"writes": "x.csv"}}, "source:name:destination"),
        ({}, {"edges": "edges.csv"}, "must name a table for each type"),
        ({}, {"nodes": {"author": "absent.csv"}}, "names node type paper|absent"),
        ({}, {"colour": "red"}, "colour"),
    ],
    ids=str,
)
def test_bad_input_is_named(files, changes, message, tmp_path):
    with pytest.raises((ValueError, OSError), match=message):
        load_dataset("tables", options_of(tmp_path, **files) | changes, tmp_path)


def test_a_word_is_the_same_class_in_all_types(tmp_path):
    files = {"author.csv": "id,label\nann,dog\nbob,cat\ncem,\n", "paper.csv": "id,label\n7,fish\n9,dog\n"}
    graph = load_dataset("tables", options_of(tmp_path, **files), tmp_path)
    assert graph.classes == 3 and graph.labels.tolist() == [1, 0, -1, 2, 1]
    numbers = files | {"paper.csv": "id,label\n7,0\n9,1\n"}
    with pytest.raises(TableError, match=r"paper\.csv: column 'label' holds int64, other types have words"):
        load_dataset("tables", options_of(tmp_path, **numbers), tmp_path)
    unlabelled = files | {"paper.csv": "id,label\n7,\n9,\n"}
    assert load_dataset("tables", options_of(tmp_path, **unlabelled), tmp_path).labels.tolist() == [1, 0, -1, -1, -1]


@pytest.mark.parametrize("role", ["label", "split", "weight"])
def test_a_column_that_is_named_must_be_in_one_of_the_types(role, tmp_path):
    with pytest.raises(TableError, match="there is no column 'year2'"):
        load_dataset("tables", options_of(tmp_path) | {role: "year2"}, tmp_path)
