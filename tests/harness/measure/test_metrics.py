"""Scores against their definitions, written the long way."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from backends.reference import definition
from harness.measure import metrics
from harness.verify.graphs import small_graph

SEEDS = st.integers(0, 2**32 - 1)


def draw(seed, classes, multilabel=False, rows=40):
    random = np.random.default_rng(seed)
    # Few values, so that ties are common.
    logits = random.integers(-3, 4, (rows, classes)).astype(np.float32)
    labels = random.integers(-1, 2, (rows, classes)) if multilabel else random.integers(-1, classes, rows)
    return logits, labels


@given(SEEDS)
def test_auc_counts_ordered_pairs(seed):
    logits, labels = draw(seed, 2)
    score = logits[:, 1] - logits[:, 0]
    pairs = [(score[i], score[j]) for i in np.flatnonzero(labels == 1) for j in np.flatnonzero(labels == 0)]
    expected = np.mean([1.0 if a > b else 0.5 if a == b else 0.0 for a, b in pairs])
    assert metrics.auc(logits, labels) == pytest.approx(expected)


def test_auc_needs_both_classes():
    with pytest.raises(ValueError, match="both classes"):
        metrics.auc(np.zeros((3, 2), dtype=np.float32), np.ones(3, dtype=np.int64))


def test_two_classes_of_which_a_split_has_one_are_scored_by_accuracy():
    graph = small_graph("multiclass", 2, weighted=False)
    labels = np.where(graph.split == 2, 0, graph.labels)
    scores = metrics.scores_of_splits(
        replace(graph, labels=labels), lambda _, nodes: np.zeros((len(nodes), 2), np.float32)
    )
    assert scores["name"] == "accuracy" and scores["test"] == 1.0 and "also" not in scores


@given(SEEDS, st.integers(1, 6))
def test_micro_f1_is_the_harmonic_mean_of_precision_and_recall(seed, classes):
    logits, labels = draw(seed, classes, multilabel=True)
    known = labels >= 0
    predicted, true = (logits > 0)[known], labels[known] == 1
    right = (predicted & true).sum()
    if right == 0:
        assert metrics.micro_f1(logits, labels) in (0.0, 1.0)
        return
    precision, recall = right / predicted.sum(), right / true.sum()
    assert metrics.micro_f1(logits, labels) == pytest.approx(2 * precision * recall / (precision + recall))


@given(SEEDS, st.integers(2, 6))
def test_accuracy_counts_labelled_rows_only(seed, classes):
    logits, labels = draw(seed, classes)
    rows = [row for row in range(len(labels)) if labels[row] >= 0]
    expected = np.mean([int(np.argmax(logits[row])) == labels[row] for row in rows])
    assert metrics.accuracy(logits, labels) == pytest.approx(expected)


@given(SEEDS, st.integers(2, 6), st.booleans())
def test_losses_are_those_of_the_definition(seed, classes, multilabel):
    logits, labels = draw(seed, classes, multilabel)
    expected = definition.loss(torch.from_numpy(logits.astype(np.float64)), labels)
    assert metrics.loss(logits, labels) == pytest.approx(float(expected))


@given(arrays.arrays(np.float32, (5, 3), elements=st.floats(-1e4, 1e4, width=32)))
def test_losses_of_extreme_logits_are_finite(logits):
    assert np.isfinite(metrics.loss(logits, np.array([0, 1, 2, -1, 0])))
    assert np.isfinite(metrics.loss(logits, np.array([[0, 1, -1]] * 5)))


@pytest.mark.parametrize(
    ("task", "classes", "name", "also"),
    [("multiclass", 4, "accuracy", None), ("multiclass", 2, "auc", "accuracy"), ("multilabel", 4, "micro_f1", None)],
)
def test_every_split_is_scored_by_the_metric_of_its_task(task, classes, name, also):
    graph = small_graph(task, classes, weighted=False)
    labels = graph.labels if task == "multilabel" else np.eye(classes)[graph.labels]

    def perfect(scored_graph, nodes):
        assert scored_graph is graph
        return (2.0 * labels[nodes] - 1.0).astype(np.float32)

    scores = metrics.scores_of_splits(graph, perfect)
    assert scores["name"] == name
    assert [scores[split] for split in ("train", "validation", "test")] == [1.0, 1.0, 1.0]
    assert (also in scores.get("also", {})) == (also is not None)


def test_predictions_that_cannot_be_scored_are_refused():
    graph = small_graph("multiclass", 4, weighted=False)
    with pytest.raises(ValueError, match="shape"):
        metrics.scores_of_splits(graph, lambda _, nodes: np.zeros((len(nodes), 3)))
    with pytest.raises(ValueError, match="finite"):
        metrics.scores_of_splits(graph, lambda _, nodes: np.full((len(nodes), 4), np.nan))
    with pytest.raises(ValueError, match="task"):
        metrics.scorers(replace(graph, task="none"))
