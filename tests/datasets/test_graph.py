"""A graph on disk: its description is whole or absent."""

from pathlib import Path

import pytest

from datasets.graph import Graph
from tests.graphs import awkward_graph


def test_a_description_that_a_kill_cuts_short_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that is repeated then reads the graph anew; half a description had ended each of them."""

    def cut_short(path: Path, text: str, *arguments: object, **options: object) -> None:
        path.write_bytes(text[:9].encode())
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Path, "write_text", cut_short)
        awkward_graph().save(tmp_path)
    assert not (tmp_path / "graph.json").exists()
    awkward_graph().save(tmp_path)
    assert Graph.load(tmp_path).nodes == awkward_graph().nodes
    assert not list(tmp_path.glob(".*"))
