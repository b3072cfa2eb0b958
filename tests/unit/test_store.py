"""The record store: whole or not at all, what is refused, what comes back."""

import copy
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.store import files, frame, naming, upgrade, validate
from harness.store.record import KEYS, MEASURED, SCHEMA_VERSION, RecordError
from tests import factory

FINITE = st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | FINITE | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
ROOT = Path(__file__).resolve().parents[2]


def test_a_record_comes_back_with_versions_and_time(tmp_path: Path) -> None:
    values = factory.record()
    del values["written"]
    path = factory.write(tmp_path, values)
    held = files.read_record(path)
    assert held["schema_version"] == SCHEMA_VERSION
    assert held["written"].endswith("Z")
    assert held["config"] == values["config"]
    assert held["epochs"]["seconds"] == pytest.approx(values["epochs"]["seconds"], rel=1e-5)
    assert list(files.find_records(tmp_path)) == [(path, held)]
    assert not list(validate.problems_in(tmp_path))


@given(facts=st.dictionaries(st.text(), JSON))
def test_any_facts_survive(tmp_path_factory: pytest.TempPathFactory, facts: dict[str, Any]) -> None:
    results = tmp_path_factory.mktemp("results")
    held = files.read_record(factory.write(results, factory.record(facts=facts)))
    assert held["facts"] == _rounded(facts)


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    return [_rounded(item) for item in value] if isinstance(value, list) else value


def test_config_keeps_every_digit(tmp_path: Path) -> None:
    rate = 0.0123456789012345
    values = factory.record(config=factory.config(training={"rate": rate}))
    assert files.read_record(factory.write(tmp_path, values))["config"]["training"]["rate"] == rate


def test_large_tables_go_to_the_side_and_come_back(tmp_path: Path) -> None:
    table = [[rank, 0.1234567 * rank] for rank in range(4000)]
    path = factory.write(tmp_path, factory.record(facts={"blocks": table}))
    assert path.stat().st_size <= files.LARGEST
    assert "blocks" not in path.read_text()
    assert files.read_record(path)["facts"]["blocks"][3999] == [3999, pytest.approx(493.703, rel=1e-5)]
    assert [found for found, _ in files.find_records(tmp_path)] == [path]
    factory.write(tmp_path, factory.record())
    assert not files.side_path(path).exists()


@pytest.mark.parametrize(
    "status", ["oom", "timeout", "error", "incorrect", "unsupported", "not_installed", "interrupted"]
)
def test_a_failed_cell_keeps_no_measurement(tmp_path: Path, status: str) -> None:
    values = factory.record() | {"status": status, "message": "it ended"}
    held = files.read_record(factory.write(tmp_path, values))
    assert not set(held) & set(MEASURED)
    assert not list(validate.problems(held))


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_a_number_that_is_not_finite_makes_an_error(tmp_path: Path, bad: float) -> None:
    values = factory.record()
    values["epochs"]["loss"][3] = bad
    held = files.read_record(factory.write(tmp_path, values))
    assert held["status"] == "error"
    assert "epochs.loss[3]" in held["message"]
    assert "epochs" not in held


def test_what_is_no_record_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    cases = {
        "surprise": factory.record() | {"surprise": 1},
        "group": factory.record(),
        "fine": factory.record(status="ok"),
    }
    del cases["group"]["group"]
    cases["fine"]["status"] = "fine"
    for word, values in cases.items():
        with pytest.raises(RecordError, match=word):
            files.write_record(tmp_path, "m/seed=0.json", values)
    assert not list(tmp_path.rglob("*"))


def test_a_full_disk_leaves_the_old_record_and_no_rest(tmp_path: Path) -> None:
    path = factory.write(tmp_path, factory.record())
    before = path.read_bytes()
    script = (
        "import pathlib, resource, signal, sys\nfrom tests import factory\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (600, 600))\n"
        "try: factory.write(pathlib.Path(sys.argv[1]), factory.record(seconds=9))\n"
        "except OSError as error: print(error.errno)\n"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip().isdigit(), done.stderr
    assert path.read_bytes() == before
    assert sorted(file.name for file in path.parent.iterdir()) == [path.name]


def test_a_write_that_is_killed_leaves_whole_records_only(tmp_path: Path) -> None:
    script = (
        "import pathlib, sys\n"
        "from tests import factory\n"
        "while True: factory.write(pathlib.Path(sys.argv[1]), factory.record())\n"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    child = subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], env=environment)
    while not list(files.record_paths(tmp_path)):
        assert child.poll() is None
    child.send_signal(signal.SIGKILL)
    child.wait()
    assert [record["status"] for _, record in files.find_records(tmp_path)] == ["ok"]


def test_old_and_new_schemas_say_what_to_do(tmp_path: Path) -> None:
    path = factory.write(tmp_path, factory.record())
    values = json.loads(path.read_text())
    for version, advice in (
        (SCHEMA_VERSION - 1, "harness upgrade"),
        (SCHEMA_VERSION + 1, "update the harness"),
        (None, "allowed"),
    ):
        path.write_text(json.dumps(values | {"schema_version": version}))
        with pytest.raises(RecordError, match=advice):
            files.read_record(path)
    path.write_text("{")
    with pytest.raises(RecordError, match="measure the cell again"):
        files.read_record(path)


def test_environments_are_named_by_content(tmp_path: Path) -> None:
    first = files.write_environment(tmp_path, {"checked": {"a": 1, "b": 2}})
    assert files.write_environment(tmp_path, {"checked": {"b": 2, "a": 1}}) == first
    assert files.write_environment(tmp_path, {"checked": {"a": 1, "b": 3}}) != first
    assert files.environment_of(tmp_path, first) == {"checked": {"a": 1, "b": 2}}
    with pytest.raises(RecordError, match="no file"):
        files.environment_of(tmp_path, "0" * 12)


def test_machine_slug_is_a_folder_name() -> None:
    assert set(files.machine_slug()) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")
    assert files.slug("Intel(R) Xeon(R) CPU E5-2680 v4 @ 2.40GHz 28-cores") == "intel-xeon-e5-2680-v4-28-cores"


def test_the_store_needs_the_standard_library_only() -> None:
    code = (
        "import sys, harness.store.files; print([m for m in ('numpy', 'torch', 'hydra', 'pandas') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


BROKEN = {
    "finite": ("epochs", "seconds", 0, float("nan")),
    "no duration": ("epochs", "seconds", 0, 0.0),
    "negative": ("prepare", "parse", -1.0),
    "allowed are 0 to 1": ("metrics", "test", 1.5),
    "holds 7 values for 6": ("epochs", "cpu_seconds", [1.0] * 7),
    "ISO 8601": ("written", "yesterday"),
    "future": ("written", "2999-01-01T00:00:00Z"),
    "time zone": ("written", "2026-01-01T00:00:00"),
    "status is ok": ("log_tail", "text"),
    "no sample": ("epochs", "seconds", []),
    "allowed are ok": ("status", "fine"),
    "is unknown": ("surprise", 1),
    "no message": ("status", "oom"),
    "is given although": ("status", "error"),
}


@pytest.mark.parametrize("problem", BROKEN)
def test_every_rule_finds_what_breaks_it(tmp_path: Path, problem: str) -> None:
    good = files.read_record(factory.write(tmp_path, factory.record()))
    assert not list(validate.problems(good))
    bad: Any = copy.deepcopy(good)
    *places, last, value = BROKEN[problem]
    inner = bad
    for place in places:
        inner = inner[place]
    inner[last] = value
    assert any(problem in found for found in validate.problems(bad)), list(validate.problems(bad))


def test_a_record_in_the_wrong_folder_is_found(tmp_path: Path) -> None:
    path = factory.write(tmp_path, factory.record())
    moved = tmp_path / path.relative_to(tmp_path).as_posix().replace("cora", "citeseer").replace("seed=0", "seed=4")
    moved.parent.mkdir(parents=True)
    path.rename(moved)
    found = [problem for _, problem in validate.problems_in(tmp_path)]
    assert any("citeseer" in problem for problem in found)
    assert any("seed=4" in problem for problem in found)


def test_a_record_without_its_environment_is_found(tmp_path: Path) -> None:
    factory.write(tmp_path, factory.record())
    next((tmp_path / "environments").iterdir()).unlink()
    assert [problem for _, problem in validate.problems_in(tmp_path) if "environment" in problem]


def test_upgraders_are_chained(tmp_path: Path) -> None:
    chain = {
        1: lambda old: old | {"facts": {"steps": [1]}},
        2: lambda old: old | {"facts": {"steps": [*old["facts"]["steps"], 2]}},
    }
    path = factory.write(tmp_path, factory.record(validation=[[epoch, 1.0, 0.5] for epoch in range(3000)]))
    assert upgrade.upgrade_folder(tmp_path) == []
    assert upgrade.upgrade_folder(tmp_path, chain, 3) == [path]
    held = files.read_json(path)
    assert held["schema_version"] == 3
    assert held["facts"] == {"steps": [1, 2]}
    assert len(files.read_json(files.side_path(path))["validation"]) == 3000


def test_an_upgrade_without_a_step_changes_nothing(tmp_path: Path) -> None:
    path = factory.write(tmp_path, factory.record())
    before = path.read_bytes()
    with pytest.raises(RecordError, match="no upgrader leads from schema version 2 to 3"):
        upgrade.upgrade_folder(tmp_path, {1: lambda old: old}, 3)
    assert path.read_bytes() == before


def test_labels_say_variant_ablations_and_what_is_unusual() -> None:
    def named(backend: str, ablations: list[str], /, **sections: Any) -> str:
        return naming.label({"config": factory.config(backend, **sections), "ablations": ablations})  # type: ignore[typeddict-item]

    assert named("agl", ["pruning"]) == "agl +pruning"
    assert named("pyg", [], backend={"variant": "csr"}) == "pyg csr"
    chosen: Any = {"config": factory.config("pyg", backend={"variant": "best"}), "facts": {"variant": "edge_index"}}
    assert naming.label(chosen) == "pyg edge_index"
    assert named("dgl", [], launcher={"allocator": "stock"}) == "dgl stock"
    assert named("dgl", [], order={"name": "rcm"}, training={"dtype": "bf16"}) == "dgl order=rcm bf16"


def test_equal_labels_are_told_apart_by_what_differs() -> None:
    records: list[Any] = [{"config": factory.config("agl", seed), "ablations": []} for seed in (0, 1)]
    for record, threshold in zip(records, (0.1, 0.2), strict=True):
        record["config"]["backend"]["threshold"] = threshold
    assert naming.labels(records) == ["agl threshold=0.1", "agl threshold=0.2"]


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_export_holds_every_record(tmp_path: Path, ending: str) -> None:
    factory.write(tmp_path / "results", factory.record("agl"))
    factory.write(tmp_path / "results", factory.record("dgl", status="oom"))
    out = tmp_path / f"table{ending}"
    frame.write(frame.frame(files.find_records(tmp_path / "results")), out)
    table = pandas.read_csv(out) if ending == ".csv" else pandas.read_parquet(out)
    held = table.set_index("config.backend.name")
    assert list(held.status) == ["ok", "oom"]
    assert held.loc["agl", "epochs.median_seconds"] == pytest.approx(0.1, rel=0.03)
    assert pandas.isna(held.loc["dgl", "epochs.median_seconds"])


def test_every_key_of_a_record_is_known() -> None:
    assert set(MEASURED) <= set(KEYS)
