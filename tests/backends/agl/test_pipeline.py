"""AGL from tables to scores; memory of a worker, inference without repetition, any number of workers."""

import weakref
from functools import cache

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from backends.ablation import resolve
from backends.agl.commandline import read_train_settings
from backends.agl.config import AglConfig
from backends.agl.flat import __main__ as flat
from backends.agl.flat.job import FlattenJob, flatten_to, nodes_to_flatten
from backends.agl.flat.sampling_strategy import parse_sampling
from backends.agl.infer import __main__ as infer
from backends.agl.train import __main__ as train
from backends.agl.train.shard_source import ShardSource
from backends.agl.train.trainer import trainer_of
from backends.agl.train.worker import WorkerClock
from backends.batches import BatchPlan
from backends.model import ModelSpec, TrainingSpec, initial_state
from backends.registry import runtime
from datasets.graph import SPLITS, Graph
from datasets.synthetic.uug import load
from harness.measure.metrics import auc
from tests.contract.test_parity import PlainClock


@cache
def uug() -> Graph:
    """The user-user graph at a size for tests."""
    return load("uug", {"nodes": 3000, "degree": 10, "features": 16})


def tables(folder) -> list[str]:
    """The graph as the node and edge tables that GraphFlat reads."""
    graph, names = uug(), [*SPLITS, "none"]
    nodes = {
        "id": np.arange(graph.nodes),
        "features": list(graph.features),
        "label": [None if label < 0 else label for label in graph.labels.tolist()],
        "split": [names[number] if names[number] in SPLITS else None for number in graph.split.tolist()],
    }
    edges = {"source": graph.csr.indices, "target": graph.csr.destinations}
    arguments = []
    for flag, name, columns in (("-n", "nodes", nodes), ("-e", "edges", edges)):
        parquet.write_table(pa.table(columns), folder / f"{name}.parquet")
        arguments += [flag, str(folder / f"{name}.parquet")]
    return arguments


def test_tables_become_shards_parameters_and_scores_of_all_nodes(tmp_path):
    graph, model = uug(), str(tmp_path / "model.safetensors")
    flatten = [*tables(tmp_path), "-h", "2", "-s", "uniform(5)", "--shard-records", "256"]
    assert flat.main([*flatten, "-o", str(tmp_path / "shards")]) == 0
    settings = ["hidden=8", "epochs=6", "batch_size=128", "workers=4", "rate=0.02"]
    arguments = ["-m", "gat", "-i", str(tmp_path / "shards"), "-t", "sync", "-o", model]
    assert train.main([*arguments, "-c", *settings]) == 0
    (tmp_path / "graph").mkdir()
    graph.save(tmp_path / "graph")
    assert infer.main(["-m", model, "-i", str(tmp_path / "graph"), "-o", str(tmp_path / "out")]) == 0
    tested, scores = graph.nodes_of("test"), np.load(tmp_path / "out" / "scores.npy")
    assert scores.shape == (graph.nodes, 2)
    assert auc(scores[tested], graph.labels[tested]) > 0.8


def test_a_training_worker_holds_few_batches_however_many_shards_there_are(tmp_path, monkeypatch):
    graph = uug()
    flatten_to(
        tmp_path / "flat",
        graph,
        nodes_to_flatten(graph, "train"),
        FlattenJob(parse_sampling("uniform(5)", 2), shard_records=32),
    )
    batch_features, most = [], 0
    vectorize = ShardSource.batch

    def watched(source, records):
        nonlocal most
        batch = vectorize(source, records)
        batch_features.append(weakref.ref(batch.features))
        most = max(most, sum(features() is not None for features in batch_features))
        return batch

    monkeypatch.setattr(ShardSource, "batch", watched)
    trainer = train.prepared_trainer(
        "sage", tmp_path / "flat", "local", read_train_settings(["batch_size=32", "hidden=8", "threads=1"])
    )
    trainer.epoch(0, WorkerClock())
    trainer.close()
    assert len(batch_features) > 10 and most <= 2


@pytest.mark.parametrize("fanouts", [(), (4, 4)])
def test_graphinfer_makes_each_embedding_once_where_neighbourhoods_repeat_them(fanouts):
    graph = uug()
    spec = ModelSpec("gat", 2, graph.width, 8, graph.classes, fanouts=fanouts)
    scores, embeddings = {}, {}
    for kind in ("graphinfer", "neighbourhood"):
        engine = runtime(AglConfig(infer=kind, pruning="true", partition="true"), "infer")
        plan = BatchPlan(np.arange(graph.nodes), 64)
        engine.prepare(graph, spec, TrainingSpec(threads=1), initial_state(spec, 0), plan, PlainClock())
        scores[kind], embeddings[kind] = engine.infer(PlainClock()), engine.facts()["embeddings"]
        engine.close()
    np.testing.assert_allclose(scores["graphinfer"], scores["neighbourhood"], atol=1e-4)
    assert embeddings["graphinfer"] == 2 * graph.nodes
    assert embeddings["neighbourhood"] > 2 * embeddings["graphinfer"]


def curve(workers, epochs=20) -> list[float]:
    """AUC on the validation nodes after each epoch of synchronous workers; batches are each worker's own."""
    graph = uug()
    config = resolve(AglConfig(strategy="sync", workers=workers, servers=0), ())
    spec = ModelSpec("gat", 2, graph.width, 8, graph.classes)
    trainer, nodes = trainer_of(config), graph.nodes_of("validation")
    plan = BatchPlan(graph.nodes_of("train"), 64)
    trainer.prepare(graph, spec, TrainingSpec(rate=0.01, threads=1), initial_state(spec, 0), plan, WorkerClock())
    scores = []
    for epoch in range(epochs):
        trainer.epoch(epoch, WorkerClock())
        scores.append(auc(trainer.predict(graph, nodes), graph.labels[nodes]))
    trainer.close()
    return scores


def test_any_number_of_workers_ends_at_the_same_auc_and_more_need_more_epochs():
    curves = {workers: curve(workers) for workers in (1, 2, 4)}
    best = max(curves[1])
    assert all(max(scores) == pytest.approx(best, abs=0.005) for scores in curves.values())
    needed = [next(epoch for epoch, score in enumerate(scores) if score >= best - 0.005) for scores in curves.values()]
    assert needed == sorted(needed)
    assert needed[-1] > needed[0]
