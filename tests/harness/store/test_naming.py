"""Labels of rows: variant, ablations, and the values that differ between equal labels."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

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
    assert named("dgl", [], launcher={"name": "inline"}) == "dgl inline"
    assert named("dgl", [], order={"name": "rcm"}, training={"dtype": "bf16"}) == "dgl order=rcm bf16"


def test_equal_labels_get_the_values_that_differ() -> None:
    records: list[Any] = [{"config": factory.config("agl", seed), "ablations": []} for seed in (0, 1)]
    for record, threshold in zip(records, (0.1, 0.2), strict=True):
        record["config"]["backend"]["threshold"] = threshold
    assert naming.labels(records) == ["agl threshold=0.1", "agl threshold=0.2"]


SETTINGS = st.dictionaries(
    st.sampled_from(["model.layers", "model.hidden", "model.fanouts", "dataset.options.name", "order.name", "seed"]),
    st.one_of(st.none(), st.booleans(), st.integers(0, 2), st.lists(st.integers(0, 2), max_size=2)),
)


@given(st.lists(st.tuples(st.sampled_from(["cora gcn train", "cora gat train"]), SETTINGS), max_size=8))
def test_different_tables_have_different_titles(tables: list[tuple[str, dict[str, Any]]]) -> None:
    names, settings = [name for name, _ in tables], [values for _, values in tables]
    titles = naming.different_titles(names, settings, [str(place) for place in range(len(tables))])
    assert len(set(titles)) == len(tables)
    assert all(title.startswith(name) for title, name in zip(titles, names, strict=True))
    assert all(title == name for title, name in zip(titles, names, strict=True) if names.count(name) == 1)


def test_a_title_has_no_more_settings_than_tell_it_apart() -> None:
    settings = [
        {"model.layers": layers, "model.hidden": 8 * layers, "training.batch_size": batch, "seed": 0}
        for layers in (1, 2)
        for batch in (None, 64)
    ]
    assert naming.different_titles(["a"] * 4, settings, ["x"] * 4) == [
        f"a layers={layers} batch_size={batch}" for layers in (1, 2) for batch in ("null", 64)
    ]
