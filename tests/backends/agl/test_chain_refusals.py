"""What does not fit a model, its tables or its shards is refused by the three commands in one sentence."""

import json
import re
import shutil

import pyarrow as pa
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from backends.agl.flat import __main__ as flat
from backends.agl.infer import __main__ as infer
from backends.agl.train import __main__ as train
from tests.backends.agl.chain import (
    COUNT,
    EDGES,
    NODES,
    chain,
    tables,
)


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
        chain(tmp_path / name, "gcn", own_tables=tables(tmp_path / name, edges=edges))
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


def test_samples_of_an_earlier_version_are_refused(tmp_path, capsys):
    chain(tmp_path, "gcn", "-s", "uniform(3)")
    manifest = json.loads((tmp_path / "flat" / "manifest.json").read_text())
    (tmp_path / "flat" / "manifest.json").write_text(json.dumps(manifest | {"draws": 1}))
    arguments = ["-i", str(tmp_path / "flat"), "-o", str(tmp_path / "other.safetensors")]
    assert train.main(["-m", "gcn", *arguments]) == 2
    assert "was sampled by version 1 of GraphFlat, this is 2: flatten again" in capsys.readouterr().err
