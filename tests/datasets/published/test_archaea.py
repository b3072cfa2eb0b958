"""The Archaea loader on short edge lists, with and without a Matrix Market header."""

from pathlib import Path

import pytest

from datasets.published import archaea
from tests.data.layouts import edges_of


def triples(tmp_path: Path, text: str) -> dict[str, Path]:
    path = tmp_path / "archaea.triples"
    path.write_text(text)
    return {path.name: path}


@pytest.mark.parametrize("lines_at_once", [1, 2, 100])
def test_archaea_is_read_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines_at_once: int) -> None:
    monkeypatch.setattr(archaea, "LINES_AT_ONCE", lines_at_once)
    files = triples(tmp_path, "1\t2\t0.5\n2 1 0.25\n3   3 1.0\n4\t1\t2e-1\n")
    graph = archaea.load("archaea", files, {"weights": True})
    assert edges_of(graph) == [(1, 2), (2, 1), (4, 1)]
    assert (graph.nodes, graph.self_loops_dropped) == (5, 1)
    assert graph.edge_weights is not None
    weights = dict(zip(graph.csr.ids.tolist(), graph.edge_weights.tolist(), strict=True))
    assert weights == pytest.approx({0: 0.5, 1: 0.25, 3: 0.2})
    assert archaea.load("archaea", files, {"weights": False}).edge_weights is None


@pytest.mark.parametrize("symmetric", [False, True])
def test_archaea_in_matrix_market_form_counts_from_one(tmp_path: Path, symmetric: bool) -> None:
    kind = "symmetric" if symmetric else "general"
    header = f"%%MatrixMarket matrix coordinate real {kind}\n% a comment\n5 5 2\n"
    graph = archaea.load("archaea", triples(tmp_path, header + "1 2 0.5\n5 4 0.25\n"), {"weights": True})
    once = [(0, 1), (4, 3)]
    assert edges_of(graph) == sorted(once + [(b, a) for a, b in once] if symmetric else once)
    assert graph.nodes == 5
    assert graph.edge_weights is not None
    assert sorted(set(graph.edge_weights.tolist())) == [0.25, 0.5]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 2 1\n3 x 1\n", "row 2|row 1"),
        ("1 2\n", "column"),
        ("", "no edges"),
        ("%%MatrixMarket matrix coordinate real general\n5 5 2\n1 2 0.5\n", "1 edges, but its header says 2"),
        ("%%MatrixMarket matrix coordinate real general\n% cut", "'' is not 'rows columns edges'"),
    ],
)
def test_archaea_errors_name_the_file(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=rf"archaea\.triples.*({message})"):
        archaea.load("archaea", triples(tmp_path, text), {})
