"""Scores of predictions, computed by the harness alone from logits and labels, in float64."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from datasets.graph import SPLITS, Graph

Floats = NDArray[np.floating]
Labels = NDArray[np.integer]
Predict = Callable[[Graph, NDArray[np.int64]], Floats]


def accuracy(logits: Floats, labels: Labels) -> float:
    """Share of labelled rows whose largest logit is their class; logits [n, classes], labels [n], -1 missing."""
    labelled = labels >= 0
    return float((logits[labelled].argmax(axis=1) == labels[labelled]).mean())


def micro_f1(logits: Floats, labels: Labels) -> float:
    """Micro-averaged F1 of ``logit > 0`` over all labelled entries [n, classes]; 1 when none is true or predicted."""
    labelled = labels >= 0
    predicted, true = (logits > 0) & labelled, labels == 1
    wrong = int((predicted & ~true).sum()) + int((true & ~predicted).sum())
    right = int((predicted & true).sum())
    return 1.0 if right + wrong == 0 else 2 * right / (2 * right + wrong)


def auc(logits: Floats, labels: Labels) -> float:
    """Area under the ROC curve of two classes [n, 2]: the Mann-Whitney statistic, ties counted half.

    Raises ValueError when one of the classes is missing.
    """
    labelled = labels >= 0
    wide, positive = logits[labelled].astype(np.float64), labels[labelled] == 1
    score = wide[:, 1] - wide[:, 0]
    ones, zeros = int(positive.sum()), int((~positive).sum())
    if not ones or not zeros:
        raise ValueError(f"the area under the curve needs both classes, labels are {zeros} zeros and {ones} ones")
    _, inverse, counts = np.unique(score, return_inverse=True, return_counts=True)
    rank = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
    return float((rank[positive].sum() - ones * (ones + 1) / 2) / (ones * zeros))


def loss(logits: Floats, labels: Labels) -> float:
    """Mean cross entropy [n], or binary cross entropy [n, classes], over the labelled entries."""
    labelled, wide = labels >= 0, logits.astype(np.float64)
    if labels.ndim == 2:
        z, y = wide[labelled], labels[labelled]
        return float((np.maximum(z, 0) - z * y + np.log1p(np.exp(-np.abs(z)))).mean())
    z = wide[labelled] - wide[labelled].max(axis=1, keepdims=True)
    return float((np.log(np.exp(z).sum(axis=1)) - z[np.arange(len(z)), labels[labelled]]).mean())


def scorers(graph: Graph) -> dict[str, Callable[[Floats, Labels], float]]:
    """Return the metrics of a graph's task, the deciding one first: micro-F1, AUC of two classes, accuracy.

    There is no AUC where the labels of some split are of one class.
    """
    if graph.task == "multilabel":
        return {"micro_f1": micro_f1}
    if graph.task == "multiclass" and graph.classes == 2 and _has_both_classes(graph):
        return {"auc": auc, "accuracy": accuracy}
    if graph.task == "multiclass":
        return {"accuracy": accuracy}
    raise ValueError(f"data set {graph.name} has the task {graph.task!r}: allowed are multiclass, multilabel")


def _has_both_classes(graph: Graph) -> bool:
    """Whether every split has nodes of both of two classes."""
    assert graph.labels is not None
    labels = [graph.labels[nodes] for split in SPLITS if len(nodes := graph.nodes_of(split))]
    return all(bool((of_split == label).any()) for of_split in labels for label in (0, 1))


def loss_and_score(graph: Graph, nodes: NDArray[np.int64], predict: Predict) -> tuple[float, float]:
    """Loss and deciding metric of some nodes."""
    assert graph.labels is not None
    logits, labels = checked_logits(predict(graph, nodes), graph, nodes), graph.labels[nodes]
    return loss(logits, labels), next(iter(scorers(graph).values()))(logits, labels)


def scores_of_splits(graph: Graph, predict: Predict) -> dict[str, Any]:
    """Score every split: ``name`` and one number per split for the deciding metric, the others under ``also``."""
    assert graph.labels is not None
    splits = {split: nodes for split in SPLITS if len(nodes := graph.nodes_of(split))}
    scored = np.concatenate(list(splits.values()))
    logits = checked_logits(predict(graph, scored), graph, scored)
    parts = dict(zip(splits, np.split(logits, np.cumsum([len(nodes) for nodes in splits.values()])[:-1]), strict=True))
    scores = {
        name: {split: score(parts[split], graph.labels[nodes]) for split, nodes in splits.items()}
        for name, score in scorers(graph).items()
    }
    first, *others = scores
    return {"name": first, **scores[first]} | ({"also": {name: scores[name] for name in others}} if others else {})


def checked_logits(logits: Floats, graph: Graph, nodes: NDArray[np.int64]) -> Floats:
    """Return the logits; raises ValueError for another shape and for numbers that are not finite.

    A trained model may know more classes than the labels of this graph.
    """
    rows, columns = logits.shape if logits.ndim == 2 else (-1, -1)
    if rows != len(nodes) or columns < graph.classes or (columns > graph.classes and graph.task != "multiclass"):
        raise ValueError(f"predictions have the shape {logits.shape}: expected is {(len(nodes), graph.classes)}")
    if not np.isfinite(logits).all():
        raise ValueError("predictions are not finite: lower training.rate, or scale large features")
    return logits
