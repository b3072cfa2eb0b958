"""METIS as a peer: what its integers do not hold is refused before it is called."""

import numpy as np
import pymetis
import pytest

from backends.contract import Unsupported
from backends.kernels.extension import extension
from backends.registry import config_class, runtime
from harness.measure.clock import Clock
from tests.backends.distpart.plain_graphs import grid, task_of

pytestmark = pytest.mark.skipif(extension is None, reason="the kernels are not built")


@pytest.mark.parametrize(
    ("integer", "load", "sentence"),
    [
        (np.int8, 0, "METIS counts up to 127 neighbours, those of all nodes are 1520: use another"),
        (np.int32, 1 << 30, "METIS adds loads up to 2147483647, those of all nodes are 429496729600: use another"),
    ],
    ids=["neighbours", "loads"],
)
@pytest.mark.parametrize("tool", ["metis", "recursive"])
def test_more_than_an_integer_of_metis_counts_is_unsupported(tool, integer, load, sentence, monkeypatch):
    monkeypatch.setattr(pymetis, "zero_copy_dtype", lambda: np.dtype(integer))
    monkeypatch.setattr(pymetis, "part_graph", lambda *_, **__: pytest.fail("METIS was called"))
    graph = grid(20)
    engine = runtime(config_class("partitioners")(tool=tool), "partition")
    engine.prepare(graph, task_of(graph, 4, np.full((graph.nodes, 1), load, dtype=np.int64)), Clock())
    with pytest.raises(Unsupported, match=sentence):
        engine.partition(Clock())
