"""The content hash of a generated graph covers every value."""

from dataclasses import replace

from datasets.synthetic.content_hash import with_content_hash
from datasets.synthetic.uug import load


def test_the_content_hash_covers_every_value() -> None:
    graph = load("uug", {"nodes": 500, "features": 8})
    for field in ("features", "labels", "split"):
        changed = getattr(graph, field).copy()
        changed.flat[-1] += 1
        assert with_content_hash(replace(graph, **{field: changed})).sha256 != graph.sha256
    other = replace(graph.csr, indices=graph.csr.indices[::-1].copy())
    assert with_content_hash(replace(graph, csr=other)).sha256 != graph.sha256
