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
from pyarrow import csv, parquet
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from backends.agl.flat import __main__ as flat
from backends.agl.flat.reader import GraphFeatureReader
from backends.agl.infer import __main__ as infer
from backends.agl.train import __main__ as train

COUNT, ROWS = 60, 400
DRAWN = np.random.default_rng(5)
IDS = DRAWN.permutation(1000)[:COUNT]
SOURCES, TARGETS = np.minimum(*DRAWN.integers(0, COUNT, (2, 2, ROWS)))
NODES = {
    "id": IDS,
    "a": DRAWN.normal(size=COUNT).astype(np.float32),
    "b": DRAWN.normal(size=COUNT).astype(np.float32),
    "type": DRAWN.integers(0, 3, COUNT),
    "label": [None if one < 0 else int(one) for one in DRAWN.integers(-1, 3, COUNT)],
}
EDGES = {
    "source": IDS[SOURCES],
    "target": IDS[TARGETS],
    "weight": DRAWN.uniform(0.1, 2.0, ROWS).astype(np.float32),
    "g": DRAWN.normal(size=ROWS).astype(np.float32),
}
SAMPLINGS = [
    "full()",
    "uniform(4);uniform(2)",
    "uniform(2);uniform(5)",
    "uniform(3, replacement=true)",
    "weighted(by=weight, limit=3);weighted(by=weight, limit=2)",
    "weighted(by=weight, limit=3, replacement=true)",
    "topk(by=weight, limit=2)",
    "topk(by=feature[0], limit=3, reverse=true)",
]


def tables(folder: Path, nodes=NODES, edges=EDGES, ending="parquet") -> list[str]:
    """Write both tables; return the options that name them."""
    write = parquet.write_table if ending == "parquet" else csv.write_csv
    for name, columns in (("nodes", nodes), ("edges", edges)):
        write(pa.table(columns), folder / f"{name}.{ending}")
    return ["-n", str(folder / f"nodes.{ending}"), "-e", str(folder / f"edges.{ending}")]


def scores_of(folder: Path) -> dict:
    """Scores by id."""
    table = folder / "nodes.parquet"  # of ids that are text
    ids = parquet.read_table(table).columns[0].to_pylist() if table.exists() else np.load(folder / "nodes.npy").tolist()
    return dict(zip(ids, np.load(folder / "scores.npy"), strict=True))


def chain(folder: Path, model: str, *options: str, given_tables=None) -> list[str]:
    """Flatten and train; return the tables."""
    files = given_tables or tables(folder)
    edges = ["--edge-features", "g"] if model == "gat" or "feature[" in " ".join(options) else []
    read = [*files, "--split", "0.8,0.1,0.1", *edges]
    assert flat.main([*read, "-h", "2", "-o", str(folder / "flat"), *options]) == 0
    trained = ["-m", model, "-i", str(folder / "flat"), "-o", str(folder / "model.safetensors")]
    heads = ["heads=2"] if model == "gat" else []
    assert train.main([*trained, "-c", "epochs=2", "hidden=4", "threads=1", *heads]) == 0
    return files


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
    files = chain(tmp_path, "gcn", "--keep-graph", given_tables=tables(tmp_path, nodes, edges, "csv"))
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
    files = chain(tmp_path, "gcn", "--id", "user", given_tables=tables(tmp_path, nodes, edges))
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
    files = chain(tmp_path, "gcn", "-s", "uniform(3)", given_tables=tables(tmp_path, nodes, edges, "csv"))
    (tmp_path / "some.csv").write_text(f"id\n{words[7]}\n{words[3]}\n")
    few = ["-t", str(tmp_path / "some.csv"), "-o", str(tmp_path / "few")]
    assert infer.main(["-m", str(tmp_path / "model.safetensors"), *files, *few]) == 0
    assert [*scores_of(tmp_path / "few")] == words[[7, 3]].tolist()


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Tables, shards and a model of one strategy."""
    folder = tmp_path_factory.mktemp("trained")
    return folder, chain(folder, "gcn", "-s", "uniform(3)")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda folder, files: [*files, "-c", "fanouts=2,2"], "leave out -c fanouts, or give -c sampler=full alone"),
        (lambda folder, files: [*files, "-c", "seed=1", "sampler=full"], "leave out -c seed, sampler"),
        (lambda folder, files: [], "give either tables, by -n and -e, or a folder, by -i"),
        (lambda folder, files: files[:2], "give either tables, by -n and -e, or a folder, by -i"),
        (lambda folder, files: [*files, "-i", str(folder / "flat")], "give either tables"),
        (lambda folder, files: ["-i", str(folder)], "holds no prepared graph .graph.json.: give the folder of"),
        (
            lambda folder, files: ["-i", str(folder / "foreign")],
            "manifest.json is not GraphFlat's, it lacks graph, shards",
        ),
        (lambda folder, files: [*files, "--features", "a"], "the model takes 2 features, tables has 1"),
        (lambda folder, files: [*files, "-t", str(folder / "stranger.csv")], "no node has this id"),
        (lambda folder, files: ["-i", str(folder / "other")], "was sampled by .*fanouts=.4, 4.*was trained on"),
        (lambda folder, files: [*files, "-c", "infer=neighbourhood", "run_on=ray"], "give run_on=local"),
        (lambda folder, files: ["-i", str(folder / "flat"), "-c", "run_on=ray"], "targets of shards .* run_on=local"),
        (
            lambda folder, files: ["-i", str(folder / "flat"), "--undirected", "--node-type", "none", "-l", "l.csv"],
            "--undirected, --node-type, --labels: .*flat holds no tables to read: leave out",
        ),
        (lambda folder, files: ["-i", str(folder / "flat"), "--id", "user"], "--id: .*flat holds no tables to read"),
        (lambda folder, files: [*files, "-l", "labels.csv"], "-l labels.csv is not read, as scores need no labels"),
        (
            lambda folder, files: ["-i", str(folder / "flat"), "-c", "partitions=2", "unmap=true"],
            "-c partitions, unmap is not read where nodes are scored each by its neighbourhood: leave it out",
        ),
        (
            lambda folder, files: [*files, "-c", "infer=neighbourhood", "partitions=0"],
            "-c partitions is not read where nodes are scored each by its neighbourhood",
        ),
        (
            lambda folder, files: [*files, "-c", "batch_size=1024"],
            "-c batch_size is not read where nodes are scored by the rounds of GraphInfer: leave it out",
        ),
        (lambda folder, files: [*files, "-c", "hub_threshold=9"], "run_on=local does not use -c hub_threshold: leave"),
        (lambda folder, files: [*files, "-c", "run_on=ray", "threads=4"], "run_on=ray does not use -c threads: leave"),
        (
            lambda folder, files: ["-i", str(folder / "flat"), "-c", "infer=graphinfer"],
            "flat holds shards, scored each by its neighbourhood: leave out -c infer, or give the graph",
        ),
    ],
)
def test_inputs_that_do_not_fit_the_model_are_refused_and_leave_nothing(trained, tmp_path, capsys, change, message):
    folder, files = trained
    if not (folder / "other").exists():
        (folder / "stranger.csv").write_text("id\n1001\n")
        (folder / "foreign").mkdir()
        (folder / "foreign" / "manifest.json").write_text("{}")
        assert flat.main([*files, "-h", "2", "-s", "uniform(4)", "-o", str(folder / "other")]) == 0
    arguments = ["-m", str(folder / "model.safetensors"), "-o", str(tmp_path / "out"), *change(folder, files)]
    capsys.readouterr()
    assert infer.main(arguments) == 2
    error = capsys.readouterr().err
    assert re.search(message, error), error
    assert not (tmp_path / "out").exists()


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


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"strategy": {"method": "uniform"}}, "'fanouts'"),
        ({"strategy": {"fanouts": [3, 3], "method": "uniform", "size": 3}}, "'size'"),
        ({"strategy": {"fanouts": ["3", 3], "method": "uniform"}}, "fanouts is"),
        ({"strategy": 3}, "strategy is 3"),
        ({"graph": None}, "graph"),
        ({"shards": "3"}, "shards is '3'"),
        ({"sizes": {}}, "'records'"),
        ({"draws": "x"}, "draws is 'x'"),
        ({"tables": [1]}, "tables is"),
    ],
    ids=str,
)
def test_an_edited_manifest_is_refused_in_one_sentence(trained, tmp_path, capsys, change, reason):
    folder, _ = trained
    shutil.copytree(folder / "flat", tmp_path / "flat")
    path = tmp_path / "flat" / "manifest.json"
    facts = json.loads(path.read_text()) | change
    path.write_text(json.dumps({name: value for name, value in facts.items() if value is not None or name == "filter"}))
    shards = ["-i", str(tmp_path / "flat")]
    assert train.main(["-m", "gcn", *shards, "-o", str(tmp_path / "other.safetensors")]) == 2
    refused = capsys.readouterr().err
    assert infer.main(["-m", str(folder / "model.safetensors"), *shards, "-o", str(tmp_path / "out")]) == 2
    for error in (refused, capsys.readouterr().err):
        assert re.search(rf"manifest.json .*{reason}", error) and "\n" not in error.strip()


def test_another_folders_files_are_never_removed(trained, tmp_path, capsys):
    folder, files = trained
    (tmp_path / "out" / "work").mkdir(parents=True)
    (tmp_path / "out" / "work" / "thesis.txt").write_text("mine")
    arguments = ["-m", str(folder / "model.safetensors"), *files, "-o", str(tmp_path / "out")]
    assert infer.main(arguments) == 2
    assert "holds files of something else" in capsys.readouterr().err
    assert (tmp_path / "out" / "work" / "thesis.txt").read_text() == "mine"


def test_all_in_edges_can_be_read_however_a_model_was_trained(trained, tmp_path):
    folder, files = trained
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


def test_weights_that_nothing_reads_and_missing_labels_are_refused(tmp_path, capsys):
    files = tables(tmp_path)
    assert flat.main([*files, "-h", "2", "-o", str(tmp_path / "flat"), "--split", "0.5,0.25,0.25"]) == 0
    model = ["-i", str(tmp_path / "flat"), "-o", str(tmp_path / "model.safetensors")]
    assert train.main(["-m", "sage", *model]) == 2
    assert "which sage would drop: train gcn, sample by them as in weighted" in capsys.readouterr().err
    assert flat.main([*files, "-h", "2", "-o", str(tmp_path / "unsplit")]) == 0
    assert train.main(["-m", "gcn", "-i", str(tmp_path / "unsplit"), "-o", str(tmp_path / "other.safetensors")]) == 2
    assert "as in --split 0.8,0.1,0.1" in capsys.readouterr().err
    assert flat.main([*files, "-h", "2", "-o", str(tmp_path / "more"), "--split", "0.9,0.3,0.1"]) == 2
    assert "split=0.9,0.3,0.1 is not allowed" in capsys.readouterr().err
    bare = tables(tmp_path, {name: column for name, column in NODES.items() if name != "label"})
    assert flat.main([*bare, "-h", "2", "-o", str(tmp_path / "bare")]) == 2
    assert "has no column 'label' or 'split': name one" in capsys.readouterr().err
    unlabelled = tables(tmp_path, NODES | {"label": pa.array([None] * COUNT, pa.int64())})
    assert flat.main([*unlabelled, "-h", "2", "-o", str(tmp_path / "bare")]) == 2
    assert "no node of tables has a label: say which nodes to flatten, as in --targets all" in capsys.readouterr().err
    assert not list(tmp_path.glob(".*"))


def test_a_model_file_says_how_it_was_trained_and_damage_is_named(trained, tmp_path, capsys):
    folder, files = trained
    with safe_open(folder / "model.safetensors", "numpy") as file:
        facts = json.loads(file.metadata()["agl"])
    assert facts["strategy"]["fanouts"] == [3, 3] and facts["tables"]["label"] == "label"
    data = (folder / "model.safetensors").read_bytes().replace(b"strategy", b"strateg1")
    (tmp_path / "model.safetensors").write_bytes(data)
    assert infer.main(["-m", str(tmp_path / "model.safetensors"), *files, "-o", str(tmp_path / "out")]) == 2
    assert "the metadata of" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("part", "change"),
    [
        ("spec", {"layers": "2"}),
        ("spec", {"slope": None}),
        ("strategy", {"seed": "q"}),
        ("tables", {"column": "x"}),
        (None, {"tables": [1]}),
        (None, {"filter": 3}),
        (None, {"draws": None}),
    ],
)
def test_an_edited_model_file_is_refused_in_one_sentence(trained, tmp_path, capsys, part, change):
    folder, files = trained
    with safe_open(folder / "model.safetensors", "numpy") as file:
        facts = json.loads(file.metadata()["agl"])
    (facts if part is None else facts[part]).update(change)
    if change == {"draws": None}:
        del facts["draws"]
    save_file(load_file(folder / "model.safetensors"), tmp_path / "model.safetensors", {"agl": json.dumps(facts)})
    assert infer.main(["-m", str(tmp_path / "model.safetensors"), *files, "-o", str(tmp_path / "out")]) == 2
    assert re.search("the metadata of .* are damaged .*: train the model again\n$", capsys.readouterr().err)


def test_shards_whose_edges_have_other_columns_than_in_training_are_refused(tmp_path, capsys):
    chain(tmp_path, "gat", "--weight", "none")
    read = [*tables(tmp_path), "-h", "2", "--split", "0.8,0.1,0.1"]
    assert flat.main([*read, "--weight", "none", "-o", str(tmp_path / "bare")]) == 0
    assert flat.main([*read, "--edge-features", "g", "-o", str(tmp_path / "weighted")]) == 0
    for name, message in (
        ("bare", "takes 1 features of each edge, .*bare has 0"),
        ("weighted", "which gat would drop"),
    ):
        arguments = ["-m", str(tmp_path / "model.safetensors"), "-i", str(tmp_path / name)]
        assert infer.main([*arguments, "-o", str(tmp_path / "scores")]) == 2
        assert re.search(message, capsys.readouterr().err)


def test_a_gcn_is_scored_on_weights_only_if_it_was_trained_on_some(tmp_path, capsys):
    light = {name: column for name, column in EDGES.items() if name != "weight"}
    for name, edges in (("weighted", EDGES), ("bare", light)):
        (tmp_path / name).mkdir()
        chain(tmp_path / name, "gcn", given_tables=tables(tmp_path / name, edges=edges))
    capsys.readouterr()
    for name, other, message in (
        ("weighted", "bare", "trained on edges with weights, .*bare.* has none: name their column"),
        ("bare", "weighted", "trained on edges with no weights, .*weighted.* has some"),
    ):
        model = ["-m", str(tmp_path / name / "model.safetensors"), "-o", str(tmp_path / "scores")]
        folder = tmp_path / other
        files = ["-n", str(folder / "nodes.parquet"), "-e", str(folder / "edges.parquet")]
        for scored in (files, ["-i", str(folder / "flat")]):
            assert infer.main([*model, *scored]) == 2
            assert re.search(message, capsys.readouterr().err)


def test_shards_of_another_run_in_the_folder_are_refused(trained, tmp_path, capsys):
    folder, files = trained
    assert flat.main([*files, "-h", "2", "-o", str(tmp_path / "flat"), "--shard-records", "7"]) == 0
    part = (tmp_path / "flat" / "part-00000.parquet").read_bytes()
    (tmp_path / "flat" / "part-00099.parquet").write_bytes(part)
    arguments = ["-m", str(folder / "model.safetensors"), "-i", str(tmp_path / "flat"), "-o", str(tmp_path / "out")]
    assert infer.main(arguments) == 2
    assert "holds part-00099.parquet, but GraphFlat wrote 7 shards there" in capsys.readouterr().err


def test_a_shard_of_other_samples_in_the_folder_is_refused(trained, tmp_path, capsys):
    folder, files = trained
    for name, seed in (("flat", "0"), ("other", "1")):
        options = ["-h", "2", "-s", "uniform(3)", "--seed", seed, "--shard-records", "7"]
        assert flat.main([*files, *options, "--split", "0.8,0.1,0.1", "-o", str(tmp_path / name)]) == 0
    shutil.copy(tmp_path / "other" / "part-00001.parquet", tmp_path / "flat")
    shards, model = ["-i", str(tmp_path / "flat")], str(folder / "model.safetensors")
    assert infer.main(["-m", model, *shards, "-o", str(tmp_path / "scores")]) == 2
    refused = capsys.readouterr().err
    assert train.main(["-m", "gcn", *shards, "-o", str(tmp_path / "other.safetensors")]) == 2
    for error in (refused, capsys.readouterr().err):
        assert re.search(r"error: \S+/flat/part-00001.parquet was written by another run than \S+/manifest.json", error)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["flat", "other"]


def test_commands_say_what_they_will_take(tmp_path, capsys):
    files = chain(tmp_path, "gcn", "-s", "uniform(3)")
    count, output = sum(label is not None for label in NODES["label"]), capsys.readouterr().err
    assert re.search(rf"{count} targets will take about \S+ GiB of disk \(.* are free\), and \S+ GiB of memory", output)
    assert infer.main(["-m", str(tmp_path / "model.safetensors"), *files, "-o", str(tmp_path / "scores")]) == 0
    assert re.search(r"3 rounds over 60 nodes will take up to \S+ GiB of disk", capsys.readouterr().err)


def test_samples_of_an_earlier_version_are_refused(tmp_path, capsys):
    chain(tmp_path, "gcn", "-s", "uniform(3)")
    manifest = json.loads((tmp_path / "flat" / "manifest.json").read_text())
    (tmp_path / "flat" / "manifest.json").write_text(json.dumps(manifest | {"draws": 1}))
    arguments = ["-i", str(tmp_path / "flat"), "-o", str(tmp_path / "other.safetensors")]
    assert train.main(["-m", "gcn", *arguments]) == 2
    assert "was sampled by version 1 of GraphFlat, this is 2: flatten again" in capsys.readouterr().err
