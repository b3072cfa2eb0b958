"""``python -m backends.agl.train``: from shards to parameters that GraphInfer reads; wrong input is named."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file, save

from backends.ablation import resolve
from backends.agl import model_file
from backends.agl.backend import AglTrainer
from backends.agl.commandline import read_train_settings
from backends.agl.flat.job import FlattenJob, flatten_to, nodes_to_flatten
from backends.agl.flat.reader import GraphFeatureReader
from backends.agl.flat.sampling_strategy import parse_sampling
from backends.agl.infer import __main__ as infer
from backends.agl.train.__main__ import main, prepared_trainer, train_to_best
from backends.agl.train.source import ShardPlan, shard_plan_of
from backends.agl.train.trainer import DistributedTrainer
from backends.batches import BatchPlan
from backends.folder_lock import locked
from backends.model import ModelSpec, TrainingSpec, initial_state
from backends.registry import config_class, runtime
from tests.contract.test_parity import PlainClock
from tests.graphs import awkward_graph

ROOT = Path(__file__).resolve().parents[4]
SHAPE = ["hidden=5", "heads=2", "rate=0.05", "threads=1"]


def shards_of(folder, graph, sampling="full()", records=1024, which="labelled"):
    """Flatten a graph, two hops."""
    job = FlattenJob(parse_sampling(sampling, 2, "node", seed=3), shard_records=records)
    flatten_to(folder, graph, nodes_to_flatten(graph, which), job)
    return folder


def command(folder, *settings, model="gat", strategy="local"):
    options = ["-m", model, "-i", str(folder / "shards"), "-t", strategy, "-o", str(folder / "model.safetensors")]
    shape = [setting for setting in SHAPE if model == "gat" or not setting.startswith("heads=")]
    return [*options, "-c", *shape, *settings]


def from_memory(graph, epochs, model="gat", **options):
    """Parameters after full-batch epochs on the graph itself."""
    engine = runtime(resolve(config_class("agl")(**options), []), "train")
    spec = ModelSpec(model, 2, graph.width, 5, graph.classes, heads=2)
    state = initial_state(spec, 0)
    engine.prepare(graph, spec, TrainingSpec(rate=0.05), state, BatchPlan(graph.nodes_of("train")), PlainClock())
    for epoch in range(epochs):
        engine.epoch(epoch, PlainClock())
    return engine.state(), engine.predict(graph, np.arange(graph.nodes))


def same(actual, expected, tolerance=1e-4):
    assert set(actual) == set(expected)
    for name, value in expected.items():
        np.testing.assert_allclose(actual[name], value, atol=tolerance, err_msg=name)


def test_training_from_shards_equals_training_from_memory_and_graphinfer_reads_its_model(tmp_path):
    graph = awkward_graph(4)
    shards_of(tmp_path / "shards", graph, which="train")
    run = [sys.executable, "-m", "backends.agl.train", *command(tmp_path, "epochs=6")]
    done = subprocess.run(run, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "best epoch 6" in done.stdout and "6/6" in done.stderr
    state, scores = from_memory(graph, 6)
    same(load_file(tmp_path / "model.safetensors"), state)
    (tmp_path / "graph").mkdir()
    graph.save(tmp_path / "graph")
    words = done.stdout.split("python -m backends.agl.infer ")[1].split()
    arguments = [{"GRAPH": str(tmp_path / "graph"), "SCORES": str(tmp_path / "out")}.get(word, word) for word in words]
    assert infer.main(arguments) == 0
    np.testing.assert_allclose(np.load(tmp_path / "out" / "scores.npy"), scores, atol=1e-3)


@pytest.mark.parametrize(("model", "strategy"), [("gcn", "sync"), ("sage", "allreduce")])
def test_workers_on_their_own_shards_equal_one_batch_of_all_targets(tmp_path, model, strategy):
    graph = awkward_graph(4)
    count = len(graph.nodes_of("train"))
    shards_of(tmp_path / "shards", graph, records=-(-count // 2), which="train")
    assert main(command(tmp_path, "epochs=4", "workers=2", model=model, strategy=strategy)) == 0
    same(load_file(tmp_path / "model.safetensors"), from_memory(graph, 4, model)[0])


@pytest.mark.parametrize("strategy", ["async", "bounded"])
def test_servers_without_waiting_learn_too(tmp_path, strategy, capsys):
    graph = awkward_graph(4)
    shards_of(tmp_path / "shards", graph, "uniform(4);uniform(3)", records=5)
    assert main(command(tmp_path, "epochs=15", "workers=2", "batch_size=4", strategy=strategy)) == 0
    output = capsys.readouterr().out
    assert "validation loss" in output
    state = load_file(tmp_path / "model.safetensors")
    assert all(np.isfinite(value).all() for value in state.values())
    start = initial_state(ModelSpec("gat", 2, graph.width, 5, graph.classes, heads=2), 0)
    assert any(np.abs(state[name] - value).max() > 1e-3 for name, value in start.items())


def test_only_records_of_split_train_are_trained(tmp_path):
    graph = awkward_graph(4)
    shards_of(tmp_path / "shards", graph, records=4)
    reader = GraphFeatureReader(tmp_path / "shards")
    trained = [target for batch in reader.batches(3, seed=1, split="train") for target in batch.targets.tolist()]
    assert sorted(trained) == graph.nodes_of("train").tolist()
    plan = shard_plan_of(reader, 3, 0)
    assert len(plan.nodes) == len(trained)
    assert plan.batches == sum(1 for _ in reader.batches(3, split="train"))


@pytest.mark.parametrize(("records", "size", "said"), [(4, 30, True), (4, 1, False), (1024, 30, False)])
def test_batches_that_shards_make_smaller_than_asked_for_are_told(tmp_path, capsys, records, size, said):
    shards_of(tmp_path / "shards", awkward_graph(4), records=records)
    assert main(command(tmp_path, "epochs=1", f"batch_size={size}")) == 0
    assert ("each is of one shard, so flatten with larger --shard-records" in capsys.readouterr().err) == said


@pytest.mark.parametrize(("labels", "said"), [([1, 0], False), ([1, 1], True), ([1, -1], True)])
def test_targets_of_one_class_are_told(tmp_path, capsys, labels, said):
    graph = replace(awkward_graph(2), labels=np.resize(labels, 40).astype(np.int64), classes=2)
    shards_of(tmp_path / "shards", graph)
    assert main(command(tmp_path, "epochs=1")) == 0
    assert ("all targets that are trained are of class 1" in capsys.readouterr().err) == said


def test_the_epoch_of_the_least_validation_loss_is_kept(tmp_path):
    graph, seen = awkward_graph(4), []
    shards_of(tmp_path / "shards", graph)
    trainer = prepared_trainer(
        "gat", tmp_path / "shards", "local", read_train_settings(["hidden=5", "heads=2", "rate=0.3"])
    )
    memory = runtime(resolve(config_class("agl")(), []), "train")
    nodes, state = graph.nodes_of("validation"), trainer.state()
    memory.prepare(graph, trainer.spec, trainer.training, state, BatchPlan(nodes), PlainClock())
    np.testing.assert_allclose(trainer.validation_loss(), memory.loss_and_gradients(nodes)[1], rtol=1e-5)
    best = train_to_best(trainer, 15, lambda step, done, total, note: seen.append(float(note.split()[-1])))
    assert best.validated == pytest.approx(min(seen), abs=1e-4) and min(seen) < seen[-1]
    assert best.epoch == 1 + int(np.argmin(seen))
    trainer.load(best.state)
    np.testing.assert_allclose(trainer.validation_loss(), best.validated, rtol=1e-5)


def test_records_without_a_label_are_neither_trained_nor_validated(tmp_path, capsys):
    graph = awkward_graph(4)
    trained, validated = graph.nodes_of("train"), graph.nodes_of("validation")
    labels = graph.labels.copy()
    labels[[*trained[:3], *validated[:2]]] = -1
    shards_of(tmp_path / "shards", replace(graph, labels=labels), records=4, which="all")
    assert main(command(tmp_path, "epochs=3", "batch_size=1")) == 0
    assert f"{len(trained) - 3} targets" in capsys.readouterr().out
    assert all(np.isfinite(value).all() for value in load_file(tmp_path / "model.safetensors").values())


@pytest.mark.parametrize("sampling", ["uniform(2, replacement=true)", "uniform(3);uniform(2)"])
def test_the_printed_command_scores_by_the_samples_of_training(tmp_path, sampling, capsys):
    graph = awkward_graph(4)
    shards_of(tmp_path / "shards", graph, sampling)
    assert main(command(tmp_path, "epochs=1", "slope=0.4")) == 0
    (tmp_path / "graph").mkdir()
    graph.save(tmp_path / "graph")
    words = capsys.readouterr().out.split("python -m backends.agl.infer ")[1].split()
    arguments = [{"GRAPH": str(tmp_path / "graph"), "SCORES": str(tmp_path / "out")}.get(word, word) for word in words]
    assert infer.main(arguments) == 0
    trainer = prepared_trainer("gat", tmp_path / "shards", "local", read_train_settings([*SHAPE, "slope=0.4"]))
    trainer.model.load(load_file(tmp_path / "model.safetensors"))
    trainer.model.eval()
    batch = trainer.source.batch(next(trainer.source.reader.encoded_batches(len(trainer.source.reader))))
    with torch.no_grad():
        logits = trainer.logits(batch).numpy()
    scores = np.load(tmp_path / "out" / "scores.npy")[trainer.graph.node_ids[batch.targets]]
    np.testing.assert_allclose(scores, logits, atol=1e-5)


@settings(max_examples=50)
@given(trained=st.lists(st.integers(0, 9), min_size=1, max_size=12), workers=st.integers(1, 12), size=st.integers(1, 5))
def test_every_shard_is_dealt_to_one_worker(trained, workers, size):
    plan = ShardPlan(np.arange(sum(trained)), size, shards=tuple(range(len(trained))), trained=tuple(trained))
    if workers > len(trained):
        with pytest.raises(ValueError, match=f"{len(trained)} shards for {workers} workers"):
            plan.deal(workers)
        return
    parts = plan.deal(workers)
    assert sorted(shard for part in parts for shard in part.shards) == list(plan.shards)
    assert sum(part.batches for part in parts) == plan.batches
    assert sum(len(part.nodes) for part in parts) == sum(trained)


MISTAKES = [
    (["-c", "speed=9"], "give key=value with a key of hidden, heads"),
    (["-c", "batch=4"], "-c batch=4 is not understood: give key=value with a key of hidden"),
    (["-c", "batch_size=0"], "-c batch_size=0 is not allowed: at least 1"),
    (["-c", "rate=nan"], "-c rate=nan is not allowed"),
    (["-c", "slope=nan"], "-c slope=nan is not allowed: give a finite number"),
    (["-c", "dropout=1"], "-c dropout=1.0 is not allowed: below 1"),
    (["-c", "head=two"], "-c head=two is not allowed: one of none, linear"),
    (["-c", "workers=2"], "workers=2 needs a strategy of many workers: one of sync, async, bounded, allreduce"),
    (["-c", "servers=2"], "-t local does not use servers: leave out -c servers, or give -t sync or async or bounded"),
    (["-t", "allreduce", "-c", "servers=2"], "-t allreduce does not use servers"),
    (["-t", "sync", "-c", "staleness=5"], "-t sync does not use staleness: leave out -c staleness, or give -t bounded"),
    (["-t", "sync", "-c", "checkpoint_every=5"], "is of servers that are started again: leave it out, or give -c serv"),
    (["-t", "sync", "-c", "workers=3"], "1 shards for 3 workers"),
    (["-i", "nowhere"], "GraphFlat did not finish there"),
    (["-o", "model.npz"], "model.npz is no .safetensors file"),
    (["-c", "rate=1e30", "epochs=3"], "lower -c rate=1e+30"),
    (["-c", "rate=1e30", "epochs=1"], "epoch 1 is nan: lower -c rate=1e+30"),
]


@pytest.mark.parametrize(("more", "message"), MISTAKES, ids=[message for _, message in MISTAKES])
def test_wrong_input_is_named_and_writes_nothing(tmp_path, more, message, capsys):
    shards_of(tmp_path / "shards", awkward_graph(4))
    assert main([*command(tmp_path), *more]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("error: ") and message in error
    assert [path.name for path in tmp_path.iterdir()] == ["shards"]


@pytest.mark.parametrize("setting", ["heads", "output_heads", "slope", "attention_dropout"])
@pytest.mark.parametrize("model", ["gcn", "sage"])
def test_a_setting_of_gat_alone_is_refused_by_name(tmp_path, capsys, model, setting):
    shards_of(tmp_path / "shards", awkward_graph(4))
    value = "0.5" if setting in ("slope", "attention_dropout") else "1"
    assert main(command(tmp_path, f"{setting}={value}", model=model)) == 2
    assert f"{model} takes no {setting}: leave out -c {setting}, or train gat" in capsys.readouterr().err


def test_weights_that_a_model_would_drop_and_damaged_shards_are_refused(tmp_path, capsys):
    shards_of(tmp_path / "shards", awkward_graph(4, weighted=True))
    assert main(command(tmp_path, model="gat")) == 2
    assert "edge weights, which gat would drop" in capsys.readouterr().err
    shard = next((tmp_path / "shards").glob("part-*.parquet"))
    shard.write_bytes(shard.read_bytes()[:-20])
    assert main(command(tmp_path, model="gcn")) == 2
    assert f"{shard} is damaged" in capsys.readouterr().err
    assert not (tmp_path / "model.safetensors").exists()


def test_a_model_that_is_there_is_never_overwritten(tmp_path, capsys):
    shards_of(tmp_path / "shards", awkward_graph(4))
    assert main(command(tmp_path, "epochs=1")) == 0
    before = (tmp_path / "model.safetensors").read_bytes()
    assert main(command(tmp_path, "epochs=2")) == 2
    assert "exists: give the name of a new" in capsys.readouterr().err
    assert (tmp_path / "model.safetensors").read_bytes() == before


def test_a_second_training_of_the_same_file_is_refused_while_the_first_works(tmp_path, capsys):
    shards_of(tmp_path / "shards", awkward_graph(4))
    with locked(tmp_path / "model.safetensors"):
        assert main(command(tmp_path, "epochs=1")) == 1
    assert "another run works in" in capsys.readouterr().err
    assert main(command(tmp_path, "epochs=1")) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.safetensors", "shards"]


def test_a_full_disk_ends_with_one_and_without_a_file(tmp_path):
    shards_of(tmp_path / "shards", awkward_graph(4))
    words = " ".join(map(repr, command(tmp_path, "epochs=1")))
    limited = f"ulimit -f 0; exec {sys.executable} -m backends.agl.train {words}"
    ended = subprocess.run(["bash", "-c", limited], cwd=ROOT, capture_output=True, text=True)
    assert ended.returncode == 1, ended.stderr
    assert "could not be written" in ended.stderr or "File too large" in ended.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["shards"]


def test_a_checkpoint_on_a_full_disk_ends_with_one_and_without_a_file(tmp_path):
    shards_of(tmp_path / "shards", awkward_graph(4))
    words = " ".join(map(repr, command(tmp_path, "epochs=3")))
    imports = "from backends.agl import model_file; from backends.agl.train.__main__ import main"
    code = f"{imports}; model_file.CHECKPOINT_SECONDS = 0.0; exit(main())"
    limited = f"ulimit -f 1; exec {sys.executable} -c '{code}' {words}"
    ended = subprocess.run(["bash", "-c", limited], cwd=ROOT, capture_output=True, text=True)
    assert ended.returncode == 1 and "Traceback" not in ended.stderr, ended.stderr
    assert ".model.safetensors.checkpoint could not be written" in ended.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["shards"]


class KilledTraining(Exception):
    """The process was killed."""


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_a_killed_training_goes_on_after_its_last_checkpoint(tmp_path, monkeypatch, optimizer):
    graph = awkward_graph(4)
    monkeypatch.setattr(model_file, "CHECKPOINT_SECONDS", 0.0)
    settings = ["epochs=7", "batch_size=5", "dropout=0.3", "attention_dropout=0.3", f"optimizer={optimizer}"]
    for name in ("whole", "killed"):
        (tmp_path / name).mkdir()
        shards_of(tmp_path / name / "shards", graph, "uniform(3)", records=7)
    assert main(command(tmp_path / "whole", *settings)) == 0
    epoch, trained = AglTrainer.epoch, []

    def until_the_fourth(trainer, index, clock):
        trained.append(index)
        if len(trained) == 4:
            raise KilledTraining
        return epoch(trainer, index, clock)

    with monkeypatch.context() as patch:
        patch.setattr(AglTrainer, "epoch", until_the_fourth)
        with pytest.raises(KilledTraining):
            main(command(tmp_path / "killed", *settings))
        assert not (tmp_path / "killed" / "model.safetensors").exists()
        assert main(command(tmp_path / "killed", *settings)) == 0
    assert trained == [0, 1, 2, 3, 3, 4, 5, 6]
    files = [tmp_path / name / "model.safetensors" for name in ("whole", "killed")]
    assert files[0].read_bytes() == files[1].read_bytes()
    assert not list((tmp_path / "killed").glob(".*"))


@pytest.mark.parametrize("strategy", ["sync", "bounded", "async", "allreduce"])
def test_a_killed_training_of_many_workers_goes_on_too(tmp_path, monkeypatch, strategy):
    graph = awkward_graph(4)
    monkeypatch.setattr(model_file, "CHECKPOINT_SECONDS", 0.0)
    settings = ["epochs=5", "batch_size=5", "dropout=0.3", "attention_dropout=0.3", "workers=2"]
    settings += ["staleness=1"] if strategy == "bounded" else []
    for name in ("whole", "killed"):
        (tmp_path / name).mkdir()
        shards_of(tmp_path / name / "shards", graph, "uniform(3)", records=7)
    assert main(command(tmp_path / "whole", *settings, strategy=strategy)) == 0
    epoch, trained = DistributedTrainer.epoch, []

    def until_the_third(trainer, index, clock):
        trained.append(index)
        if len(trained) == 3:
            raise KilledTraining
        return epoch(trainer, index, clock)

    with monkeypatch.context() as patch:
        patch.setattr(DistributedTrainer, "epoch", until_the_third)
        with pytest.raises(KilledTraining):
            main(command(tmp_path / "killed", *settings, strategy=strategy))
        assert main(command(tmp_path / "killed", *settings, strategy=strategy)) == 0
    assert trained == [0, 1, 2, 2, 3, 4]
    whole, killed = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "killed"))
    if strategy in ("sync", "allreduce"):  # the others depend on which worker is first
        same(killed, whole, 0.0)
    assert not list((tmp_path / "killed").glob(".*"))


def test_damaged_checkpoints_are_not_read_and_those_of_another_training_stay(tmp_path, monkeypatch, capsys):
    graph = awkward_graph(4)
    shards_of(tmp_path / "shards", graph)
    assert main(command(tmp_path, "epochs=2")) == 0
    expected = load_file(tmp_path / "model.safetensors")
    (tmp_path / "model.safetensors").unlink()
    file = tmp_path / ".model.safetensors.checkpoint"
    contents = [b"cut", save(expected)]
    for value in ({}, [], {"identity": "another"}):
        torch.save(value, file)
        contents.append(file.read_bytes())
    for content in contents:
        file.write_bytes(content)
        assert main(command(tmp_path, "epochs=2")) == 0
        same(load_file(tmp_path / "model.safetensors"), expected, 0)
        (tmp_path / "model.safetensors").unlink()
    monkeypatch.setattr(model_file, "CHECKPOINT_SECONDS", 0.0)
    with monkeypatch.context() as patch:
        patch.setattr(model_file.Checkpoints, "remove", lambda self: None)
        assert main(command(tmp_path, "epochs=1")) == 0
    (tmp_path / "model.safetensors").unlink()
    content = file.read_bytes()
    assert main(command(tmp_path, "epochs=2")) == 2 and file.read_bytes() == content
    assert "holds 1 epochs of another training" in capsys.readouterr().err
    assert main(command(tmp_path, "epochs=1", "threads=2")) == 0  # as it was, by other threads
    assert not file.exists()
