"""Random cells for the parity gate: graphs of any size, skew, labels and scale, under every engine."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backends.ablation import resolve
from backends.registry import config_class
from datasets.csr import csr_from_edges
from datasets.graph import Graph
from harness.planning.schema import DatasetConfig, ModelConfig, RunConfig, ScenarioConfig, TrainingConfig

Random = np.random.Generator
ENGINES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("agl", {}),
    ("agl", {"form": "paper"}),
    ("agl", {"pruning": "false"}),
    ("blocksparse", {}),
    ("reference", {}),
    ("reference", {"variant": "scatter"}),
    ("reference", {"variant": "reduce_cached"}),
    ("pyg", {"loader": "khop"}),
    ("pyg", {"loader": "khop", "variant": "scatter"}),
    ("pyg", {"loader": "khop", "variant": "edge_index"}),
    ("dgl", {}),
)


@dataclass
class RandomCell:
    """A configuration and a graph."""

    config: RunConfig
    graph: Graph

    def __str__(self) -> str:
        model, graph, features = self.config.model, self.graph, self.graph.features
        assert features is not None
        return (
            f"{self.config.backend} {self.config.scenario.name} {model.name} layers={model.layers} "
            f"hidden={model.hidden} heads={model.heads} head={model.head} fanouts={model.fanouts} "
            f"batch={self.config.training.batch_size} nodes={graph.nodes} edges={graph.csr.nnz} width={graph.width} "
            f"classes={graph.classes} {graph.task} scale={float(np.abs(features).max(initial=0)):.1e} "
            f"weighted={graph.edge_weights is not None} hub={int(graph.csr.in_degrees.max(initial=0))}"
        )


def random_cell(seed: int, models: tuple[str, ...] = ("gcn", "sage", "gat"), engines: Any = ENGINES) -> RandomCell:
    """The cell of a seed; engines that cannot run it are replaced by the next one that can."""
    random = np.random.default_rng(seed)
    model = models[random.integers(len(models))]
    graph = random_graph(random, weighted=model == "gcn" and random.random() < 0.5)
    scenario = ("train", "train", "train", "infer", "spmm")[random.integers(5)]
    size = None if scenario != "train" or random.random() < 0.5 else int(random.integers(1, graph.nodes + 1))
    layers, start = int(random.integers(1, 4)), int(random.integers(len(engines)))
    for name, options in (*engines[start:], *engines[:start]):
        backend = resolve(config_class(name)(**options), [])
        if backend.unsupported(scenario, model, "cpu", size is None) is None:
            break
    sampled = size is not None and scenario in backend.draws and random.random() < 0.5
    return RandomCell(
        RunConfig(
            dataset=DatasetConfig("random"),
            model=ModelConfig(
                model,
                layers=layers,
                hidden=int(random.choice([1, 2, 5, 16, 33])),
                heads=int(random.integers(1, 4)),
                output_heads=int(random.integers(1, 3)),
                head=("none", "none", "linear")[random.integers(3)],
                fanouts=[int(fanout) for fanout in random.integers(1, 6, layers)] if sampled else [],
            ),
            backend=backend,
            training=TrainingConfig(batch_size=size),
            scenario=ScenarioConfig(scenario),
            threads=1,
            seed=seed,
        ),
        graph,
    )


def random_graph(random: Random, weighted: bool) -> Graph:
    """A graph of 1 to 400 nodes: uniform or skewed ends, perhaps a hub, features and labels of every kind."""
    nodes = int(random.choice([1, 2, 3, 7, *np.exp(random.uniform(np.log(8), np.log(400), 6)).astype(int)]))
    count = int(nodes * random.choice([0, 0.5, 2, 8]))
    source, destination = (_ends(random, nodes, count) for _ in range(2))
    if random.random() < 0.3:
        hub = random.integers(0, nodes, int(random.choice([10, 100, 5000])))
        source, destination = np.concatenate((source, hub)), np.concatenate((destination, np.zeros_like(hub)))
    no_loop = source != destination
    csr = csr_from_edges(source[no_loop], destination[no_loop], (nodes, nodes))
    classes = int(random.choice([1, 2, 3, 7, 20]))
    multilabel = bool(random.random() < 0.4)
    split = random.integers(0, 3, nodes).astype(np.int8)
    labels = _label_sets(random, nodes, classes) if multilabel else _labels(random, nodes, classes)
    first = int(random.integers(nodes))
    split[first] = 0
    labels[first] = np.maximum(labels[first], 0)
    return Graph(
        "random",
        csr,
        features=_features(random, nodes),
        labels=labels,
        split=split,
        classes=classes,
        task="multilabel" if multilabel else "multiclass",
        edge_weights=random.uniform(0.1, 3.0, csr.nnz).astype(np.float32) if weighted else None,
    )


def _ends(random: Random, nodes: int, count: int) -> NDArray[np.int64]:
    skew = random.choice([1.0, 1.0, 3.0])
    return np.minimum((nodes * random.random(count) ** skew).astype(np.int64), nodes - 1)


def _features(random: Random, nodes: int) -> NDArray[np.float32]:
    width = int(random.choice([1, 2, 5, 24, 200]))
    kinds: tuple[Callable[[], Any], ...] = (
        lambda: random.standard_normal((nodes, width)),
        lambda: random.random((nodes, width)) < 0.1,
        lambda: np.full((nodes, width), 0.1),
        lambda: 5 + random.standard_normal((nodes, width)),
        lambda: random.standard_normal((nodes, width)) * 10.0 ** random.uniform(-3, 3, width),
    )
    scale = 10.0 ** random.choice([0, 0, 0, -6, -3, 3, 6])
    return (kinds[random.integers(len(kinds))]() * scale).astype(np.float32)


def _labels(random: Random, nodes: int, classes: int) -> NDArray[np.int64]:
    balanced = random.permutation(np.arange(nodes) % classes)
    labels = (balanced, random.integers(0, classes, nodes), np.zeros(nodes, dtype=np.int64))[random.integers(3)]
    missing = random.random(nodes) < random.choice([0.0, 0.3])
    return np.where(missing, -1, labels).astype(np.int64)


def _label_sets(random: Random, nodes: int, classes: int) -> NDArray[np.int8]:
    labels = (random.random((nodes, classes)) < random.choice([0.0, 0.1, 0.5, 1.0])).astype(np.int8)
    labels[random.random((nodes, classes)) < random.choice([0.0, 0.2])] = -1
    return labels
