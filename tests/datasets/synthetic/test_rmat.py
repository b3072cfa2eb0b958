"""R-MAT graphs have hubs, no repeated edges and the quadrants of Graph500."""

import numpy as np

from datasets.registry import load_dataset
from datasets.synthetic import rmat

RMAT = {"scale": 10, "edges": 20_000}


def test_rmat_has_hubs_no_repeated_edges_and_the_quadrants_of_graph500(tmp_path):
    graph = load_dataset("rmat", RMAT, tmp_path)
    key = graph.csr.destinations.astype(np.int64) * graph.nodes + graph.csr.indices
    assert len(np.unique(key)) == graph.csr.nnz
    assert graph.csr.in_degrees.max() > 20 * graph.csr.in_degrees.mean()
    source, destination = rmat._ends(rmat.RmatOptions(scale=1), np.arange(200_000))
    shares = np.bincount(2 * source + destination, minlength=4) / 200_000
    np.testing.assert_allclose(shares, rmat.QUADRANTS, atol=0.005)
