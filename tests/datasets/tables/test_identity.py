"""Names of user tables, and what tells two of them apart."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datasets.graph import Graph
from datasets.prepare import prepare_graph
from datasets.tables.identity import NAME, identified
from datasets.tables.table import TableError
from harness.planning.compose import compose_one
from harness.planning.config import load
from harness.planning.identity import record_path
from harness.planning.plan import PlannedRun, form_groups
from harness.planning.schema import DatasetConfig, OrderConfig
from harness.usage import UsageError

EDGES = "source,target\n0,1\n1,2\n"


def write(folder: Path, values: int = 0) -> dict[str, Any]:
    """Write two small tables and return the options that name them."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "nodes.csv").write_text("id,x\n" + "".join(f"{node},{node + values}\n" for node in range(3)))
    (folder / "edges.csv").write_text(EDGES)
    return {role: str(folder / f"{role}.csv") for role in ("nodes", "edges")}


@given(st.text(max_size=60))
def test_a_name_is_allowed_or_an_error_that_says_what_is(name: str) -> None:
    try:
        assert identified({"name": name})["name"] == name
        assert NAME.fullmatch(name) and Path("results", name).parent == Path("results")
    except ValueError as error:
        assert not NAME.fullmatch(name) and "letters" in str(error)


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a/b", "../x", "über", "a b", "a.b", "-a", "x" * 49, "a\n", True, ["a"]]
)
def test_names_that_are_no_folder_of_their_own_are_refused(name: Any) -> None:
    with pytest.raises(ValueError, match="is not allowed: give 1 to 48 letters"):
        identified({"name": name})


@pytest.mark.parametrize("name", ["cora", "Cora", "uug", "tables"])
def test_names_of_other_data_sets_are_refused(name: str, tmp_path: Path) -> None:
    options = [f"+dataset.options.{key}={value}" for key, value in write(tmp_path).items()]
    with pytest.raises(UsageError, match="name of another data set"):
        load(compose_one(["dataset=tables", *options, f"+dataset.options.name={name}"]))


@given(folder=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="/\0"), min_size=1, max_size=40))
def test_a_default_name_is_allowed_whatever_the_folder_is_called(
    folder: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    options = write(tmp_path_factory.mktemp("tables"))
    from datasets.tables.identity import _derived

    name = _derived({"nodes": f"/data/{folder}/nodes.csv"}, identified(options)["sha256"])
    assert name is not None and NAME.fullmatch(name)


@pytest.mark.parametrize("name", [[], ["+dataset.options.name=my_graph"]], ids=["default", "named"])
def test_other_content_at_the_same_path_is_another_cell(tmp_path: Path, name: list[str]) -> None:
    paths = set()
    for values in (0, 1):
        options = [f"+dataset.options.{key}={value}" for key, value in write(tmp_path / "mine", values).items()]
        config = load(compose_one(["backend=dummy", "dataset=tables", *options, *name]))
        (group,) = form_groups([PlannedRun(config)], lambda config: {})
        assert group.key["dataset"] == config.dataset.options["name"]
        paths.add(record_path(config, group.cells[0].hash, "box", "g"))
    assert len(paths) == 2
    assert all(path.startswith("box/my_graph/" if name else "box/mine-") for path in paths)


def test_folders_of_the_same_name_have_different_default_names(tmp_path: Path) -> None:
    first, second = (identified(write(tmp_path / place / "data", place == "b")) for place in ("a", "b"))
    assert first["name"] != second["name"] and first["name"].startswith("data-")


def test_tables_below_the_home_folder_are_identified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    paths = {role: f"~/mine/{role}.csv" for role in write(tmp_path / "mine")}
    first = identified(paths)
    write(tmp_path / "mine", values=1)
    assert first["name"].startswith("mine-") and first["sha256"] != identified(paths)["sha256"]


def test_a_prepared_graph_has_the_name_and_is_read_once(tmp_path: Path) -> None:
    dataset = DatasetConfig("tables", identified(write(tmp_path) | {"name": "my_graph"}))
    folder, phases = prepare_graph(dataset, OrderConfig(), tmp_path / "cache")
    assert Graph.load(folder).name == "my_graph"
    write(tmp_path, values=5)
    assert prepare_graph(dataset, OrderConfig(), tmp_path / "cache") == (folder, phases)


def test_tables_that_change_after_planning_are_refused(tmp_path: Path) -> None:
    dataset = DatasetConfig("tables", identified(write(tmp_path)))
    write(tmp_path, values=7)
    with pytest.raises(TableError, match="was changed since the run began"):
        prepare_graph(dataset, OrderConfig(), tmp_path / "cache")
    with pytest.raises(ValueError, match="these are other tables"):
        identified(dataset.options)
