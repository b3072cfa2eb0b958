"""From tables to scores by three commands: every strategy scores alike from tables, a graph, and shards."""

import json
import re
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from backends.agl.flat import __main__ as flat
from backends.agl.flat.reader import GraphFeatureReader
from backends.agl.infer import __main__ as infer
from backends.agl.train import __main__ as train
from tests.backends.agl.chain import (
    COUNT,
    EDGES,
    IDS,
    NODES,
    SAMPLINGS,
    SOURCES,
    TARGETS,
    chain,
    scores_of,
    tables,
)


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(["gcn", "sage", "gat"]),
    st.sampled_from(SAMPLINGS),
    st.sampled_from(["node", "target"]),
    st.sampled_from([None, "weight > 0.5 and neighbor.type in (0, 1)", "weight * 2 > 0.9"]),
    st.integers(0, 3),
    st.booleans(),
)
def test_every_strategy_scores_alike_from_tables_a_graph_and_shards(model, sampling, scope, filtering, seed, shared):
    used = model == "gcn" or filtering is not None or "by=weight" in sampling
    weight = [] if used else ["--weight", "none"]
    with TemporaryDirectory() as name:
        folder = Path(name)
        options = ["-s", sampling, "--scope", scope, "--seed", str(seed), "--shard-records", "7", *weight]
        options += ["-f", filtering] if filtering else []
        files = chain(folder, model, *options, *(["--shared"] if shared else []))
        stated = ["-m", str(folder / "model.safetensors"), "-c", "threads=1"]
        by_default = "batch_size=9" if scope == "target" and sampling != "full()" else "partitions=3"
        assert infer.main([*stated, by_default, *files, "-o", str(folder / "tables")]) == 0
        stated += ["batch_size=9"]
        assert infer.main([*stated, "infer=neighbourhood", *files, "-o", str(folder / "hoods")]) == 0
        assert infer.main([*stated, "-i", str(folder / "flat"), "-o", str(folder / "shards")]) == 0
        everyone, hoods, targets = (scores_of(folder / one) for one in ("tables", "hoods", "shards"))
    assert set(everyone) == set(IDS.tolist()) and len(targets) == sum(label is not None for label in NODES["label"])
    bound = 1e-5 * max(np.abs(score).max() for score in everyone.values())
    assert max(np.abs(everyone[node] - hoods[node]).max() for node in everyone) <= bound
    assert max(np.abs(everyone[node] - targets[node]).max() for node in targets) <= bound


def test_a_graph_that_flatten_keeps_is_scored_whole_and_names_stay(tmp_path, capsys):
    words = np.array([f"user {number}" for number in IDS])
    nodes, edges = NODES | {"id": words}, EDGES | {"source": words[SOURCES], "target": words[TARGETS]}
    files = chain(tmp_path, "gcn", "--keep-graph", own_tables=tables(tmp_path, nodes, edges, "csv"))
    assert "-n NODES -e EDGES" in capsys.readouterr().out
    for name, source in (("graph", ["-i", str(tmp_path / "flat")]), ("tables", files)):
        assert infer.main(["-m", str(tmp_path / "model.safetensors"), *source, "-o", str(tmp_path / name)]) == 0
    graph, read = scores_of(tmp_path / "graph"), scores_of(tmp_path / "tables")
    assert set(graph) == set(words.tolist()) and all(np.array_equal(graph[word], read[word]) for word in words)
    parquet.write_table(pa.table({"id": words[[7, 3]]}), tmp_path / "some.parquet")
    few = ["-t", str(tmp_path / "some.parquet"), "-o", str(tmp_path / "few")]
    assert infer.main(["-m", str(tmp_path / "model.safetensors"), *files, *few]) == 0
    assert [*scores_of(tmp_path / "few")] == words[[7, 3]].tolist()
    shutil.rmtree(tmp_path / "flat" / "graph")
    shards = ["-i", str(tmp_path / "flat"), "-o", str(tmp_path / "shards")]
    assert infer.main(["-m", str(tmp_path / "model.safetensors"), *shards]) == 0
    assert all(np.allclose(row, read[word], atol=1e-5) for word, row in scores_of(tmp_path / "shards").items())
    assert sorted(path.name for path in (tmp_path / "few").iterdir()) == ["facts.json", "nodes.parquet", "scores.npy"]


def test_ids_that_are_text_are_written_as_targets_are_read(tmp_path):
    words = np.array([f"user {number}" for number in IDS])
    nodes = {"user": words} | {name: column for name, column in NODES.items() if name != "id"}
    edges = EDGES | {"source": words[SOURCES], "target": words[TARGETS]}
    files = chain(tmp_path, "gcn", "--id", "user", own_tables=tables(tmp_path, nodes, edges))
    for number, source in enumerate((files, ["-i", str(tmp_path / "flat")])):
        model = ["-m", str(tmp_path / "model.safetensors")]
        assert infer.main([*model, *source, "-o", str(tmp_path / f"first {number}")]) == 0
        few = ["-t", str(tmp_path / f"first {number}" / "nodes.parquet"), "-o", str(tmp_path / f"again {number}")]
        assert infer.main([*model, *files, *few]) == 0
        first, again = (scores_of(tmp_path / f"{name} {number}") for name in ("first", "again"))
        assert [*first] == [*again] and all(np.allclose(first[word], again[word], atol=1e-5) for word in first)


def test_targets_in_csv_that_look_like_numbers_meet_ids_that_are_text(tmp_path):
    words = np.array([str(number) for number in IDS])
    words[0] = "x9"
    nodes, edges = NODES | {"id": words}, EDGES | {"source": words[SOURCES], "target": words[TARGETS]}
    files = chain(tmp_path, "gcn", "-s", "uniform(3)", own_tables=tables(tmp_path, nodes, edges, "csv"))
    (tmp_path / "some.csv").write_text(f"id\n{words[7]}\n{words[3]}\n")
    few = ["-t", str(tmp_path / "some.csv"), "-o", str(tmp_path / "few")]
    assert infer.main(["-m", str(tmp_path / "model.safetensors"), *files, *few]) == 0
    assert [*scores_of(tmp_path / "few")] == words[[7, 3]].tolist()


def test_features_are_the_columns_of_the_training_in_any_table(tmp_path):
    """A model takes the columns that it was trained on, though none was named and the next table has another order."""
    files = chain(tmp_path, "gcn", "-s", "uniform(3)")
    (tmp_path / "later").mkdir()
    reordered = {name: NODES[name] for name in ("b", "id", "a", "type")} | {"age": np.arange(COUNT)}
    later = tables(tmp_path / "later", reordered)
    lists = NODES | {"x": [[0, 1]] * COUNT, "y": np.stack([NODES["a"], NODES["b"]], axis=1).tolist()}
    (tmp_path / "lists").mkdir()
    listed = [*tables(tmp_path / "lists", lists), "--feature-columns", "x", "--feature-values", "y", "--width", "2"]
    for name, source in (("first", files), ("second", later), ("third", listed)):
        assert infer.main(["-m", str(tmp_path / "model.safetensors"), *source, "-o", str(tmp_path / name)]) == 0
    first, second, third = (scores_of(tmp_path / name) for name in ("first", "second", "third"))
    assert all(np.array_equal(first[node], second[node]) for node in first)
    assert all(np.allclose(first[node], third[node], atol=1e-5) for node in first)


@pytest.mark.parametrize(
    "columns", [{"label": ["a", "b"] * 30}, {"label": [-2] * COUNT}, {"split": ["holdout"] * COUNT}]
)
def test_tables_are_scored_whatever_their_labels_and_splits_are(tmp_path, columns):
    """Labels of the training came from a table of their own; scores need none."""
    labels = {"id": IDS, "label": np.arange(COUNT) % 3, "split": ["train", "test"] * 30}
    parquet.write_table(pa.table(labels), tmp_path / "labels.parquet")
    bare = {name: column for name, column in NODES.items() if name != "label"}
    files, model = tables(tmp_path, bare | columns), str(tmp_path / "model.safetensors")
    labelled = [*files, "-l", str(tmp_path / "labels.parquet")]
    assert flat.main([*labelled, "-h", "2", "-s", "uniform(3)", "-o", str(tmp_path / "flat")]) == 0
    assert train.main(["-m", "gcn", "-i", str(tmp_path / "flat"), "-o", model, "-c", "epochs=1", "hidden=4"]) == 0
    assert infer.main(["-m", model, *files, "-o", str(tmp_path / "scores")]) == 0
    assert set(scores_of(tmp_path / "scores")) == set(IDS.tolist())


def test_training_needs_no_node_of_split_validation(tmp_path, capsys):
    read = [*tables(tmp_path), "--split", "0.8,0,0.2", "-h", "2", "--keep-graph", "-o", str(tmp_path / "flat")]
    assert flat.main(read) == 0
    for source in ("shards", "graph"):
        output = ["-o", str(tmp_path / f"{source}.safetensors"), "-c", "epochs=1", "hidden=4", f"source={source}"]
        assert train.main(["-m", "gcn", "-i", str(tmp_path / "flat"), *output]) == 0
    assert "validation loss" not in capsys.readouterr().out


def test_a_model_of_samples_per_target_is_not_scored_on_ray(tmp_path, capsys):
    files = chain(tmp_path, "gcn", "-s", "uniform(3)", "--scope", "target")
    arguments = ["-m", str(tmp_path / "model.safetensors"), *files, "-o", str(tmp_path / "out"), "-c", "run_on=ray"]
    assert infer.main(arguments) == 2
    assert "a model of --scope target is scored by neighbourhoods" in capsys.readouterr().err


@pytest.mark.parametrize(("size", "said"), [(30, True), (9, False)])
def test_batches_that_shards_make_smaller_than_asked_for_are_told(tmp_path, capsys, size, said):
    chain(tmp_path, "sage", "-s", "uniform(3)", "--weight", "none", "--shard-records", "9")
    capsys.readouterr()
    scored = ["-i", str(tmp_path / "flat"), "-o", str(tmp_path / "out"), "-c", f"batch_size={size}"]
    assert infer.main(["-m", str(tmp_path / "model.safetensors"), *scored]) == 0
    assert (f"batches have at most 9 targets, not -c batch_size={size}" in capsys.readouterr().err) == said
    assert json.loads((tmp_path / "out" / "facts.json").read_text())["batch"] == 9


def test_whole_neighbourhoods_have_no_scope_and_are_scored_by_the_rounds_of_graphinfer(tmp_path):
    files = chain(tmp_path, "gcn", "-s", "full()", "--scope", "target")
    manifest = json.loads((tmp_path / "flat" / "manifest.json").read_text())
    (tmp_path / "flat" / "manifest.json").write_text(
        json.dumps(manifest | {"strategy": manifest["strategy"] | {"scope": "target"}})  # as an earlier version wrote
    )
    batches = GraphFeatureReader(tmp_path / "flat").encoded_batches(99)
    assert {batch.manifest["strategy"]["scope"] for batch in batches} == {"node"}
    for name, source in (("tables", [*files, "-c", "partitions=2"]), ("shards", ["-i", str(tmp_path / "flat")])):
        scored = ["-m", str(tmp_path / "model.safetensors"), "-o", str(tmp_path / name), *source]
        assert infer.main(scored) == 0
    assert json.loads((tmp_path / "tables" / "facts.json").read_text())["rounds"] == 3


def test_all_in_edges_can_be_read_however_a_model_was_trained(tmp_path):
    folder, files = tmp_path, chain(tmp_path, "gcn", "-s", "uniform(3)")
    arguments = ["-m", str(folder / "model.safetensors"), *files]
    assert infer.main([*arguments, "-o", str(tmp_path / "sampled")]) == 0
    assert infer.main([*arguments, "-o", str(tmp_path / "whole"), "-c", "sampler=full"]) == 0
    assert not np.allclose(np.load(tmp_path / "sampled" / "scores.npy"), np.load(tmp_path / "whole" / "scores.npy"))


@pytest.mark.parametrize("sampling", ["weighted(by=weight, limit=3)", "topk(by=feature[0], limit=3)"])
def test_all_in_edges_can_be_read_by_a_model_whose_samples_a_column_steered(tmp_path, sampling):
    weight = ["--weight", "none"] if "feature" in sampling else []
    files = chain(tmp_path, "sage", "-s", sampling, *weight)
    arguments = ["-m", str(tmp_path / "model.safetensors"), *files, "-o", str(tmp_path / "out"), "-c", "sampler=full"]
    assert infer.main(arguments) == 0


def test_commands_say_what_they_will_take(tmp_path, capsys):
    files = chain(tmp_path, "gcn", "-s", "uniform(3)")
    count, output = sum(label is not None for label in NODES["label"]), capsys.readouterr().err
    assert re.search(rf"{count} targets will take about \S+ GiB of disk \(.* are free\), and \S+ GiB of memory", output)
    assert infer.main(["-m", str(tmp_path / "model.safetensors"), *files, "-o", str(tmp_path / "scores")]) == 0
    assert re.search(r"3 rounds over 60 nodes will take up to \S+ GiB of disk", capsys.readouterr().err)
