"""Labels of rows: variant, ablations, and the values that differ between equal labels."""

from typing import Any

from harness.store import naming
from tests import factory


def test_labels_name_variant_ablations_and_unusual_values() -> None:
    def named(backend: str, ablations: list[str], /, **sections: Any) -> str:
        return naming.label({"config": factory.config(backend, **sections), "ablations": ablations})  # type: ignore[typeddict-item]

    assert named("agl", ["pruning"]) == "agl +pruning"
    assert named("pyg", [], backend={"variant": "csr"}) == "pyg csr"
    chosen: Any = {"config": factory.config("pyg", backend={"variant": "best"}), "facts": {"variant": "edge_index"}}
    assert naming.label(chosen) == "pyg edge_index"
    assert named("dgl", [], launcher={"allocator": "stock"}) == "dgl stock"
    assert named("dgl", [], order={"name": "rcm"}, training={"dtype": "bf16"}) == "dgl order=rcm bf16"


def test_equal_labels_get_the_values_that_differ() -> None:
    records: list[Any] = [{"config": factory.config("agl", seed), "ablations": []} for seed in (0, 1)]
    for record, threshold in zip(records, (0.1, 0.2), strict=True):
        record["config"]["backend"]["threshold"] = threshold
    assert naming.labels(records) == ["agl threshold=0.1", "agl threshold=0.2"]
