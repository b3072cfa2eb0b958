"""Files of records: written whole or not at all, read back unchanged, refused when invalid."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.store import files, validate
from harness.store.processor import processor
from harness.store.record import MEASURED, SCHEMA_VERSION, RecordError
from tests import factory

FINITE = st.floats(allow_nan=False, allow_infinity=False)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | FINITE | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


ROOT = Path(__file__).resolve().parents[3]


def test_a_record_comes_back_with_versions_and_time(tmp_path: Path) -> None:
    values = factory.record()
    del values["written"]
    path = factory.write(tmp_path, values)
    record = files.read_record(path)
    assert record["schema_version"] == SCHEMA_VERSION
    assert record["written"].endswith("Z")
    assert record["config"] == values["config"]
    assert record["epochs"]["seconds"] == pytest.approx(values["epochs"]["seconds"], rel=1e-5)
    assert list(files.find_records(tmp_path)) == [(path, record)]
    assert not list(validate.problems_in(tmp_path))


@given(facts=st.dictionaries(st.text(), JSON))
def test_any_facts_survive(tmp_path_factory: pytest.TempPathFactory, facts: dict[str, Any]) -> None:
    results = tmp_path_factory.mktemp("results")
    record = files.read_record(factory.write(results, factory.record(facts=facts)))
    assert record["facts"] == _rounded(facts)


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
    assert path.stat().st_size <= files.LARGEST_BYTES
    assert "blocks" not in path.read_text()
    assert files.read_record(path)["facts"]["blocks"][3999] == [3999, pytest.approx(493.703, rel=1e-5)]
    assert [record_path for record_path, _ in files.find_records(tmp_path)] == [path]
    factory.write(tmp_path, factory.record())
    assert not files.side_path(path).exists()


@pytest.mark.parametrize(
    "status", ["oom", "timeout", "error", "incorrect", "unsupported", "not_installed", "interrupted"]
)
def test_a_failed_cell_keeps_no_measurement(tmp_path: Path, status: str) -> None:
    values = factory.record() | {"status": status, "message": "it ended"}
    record = files.read_record(factory.write(tmp_path, values))
    assert not set(record) & set(MEASURED)
    assert not list(validate.problems(record))


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_a_number_that_is_not_finite_makes_an_error(tmp_path: Path, bad: float) -> None:
    values = factory.record()
    values["epochs"]["loss"][3] = bad
    record = files.read_record(factory.write(tmp_path, values))
    assert record["status"] == "error"
    assert "epochs.loss[3]" in record["message"]
    assert "epochs" not in record


def test_an_invalid_record_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
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


def test_a_full_disk_leaves_the_old_record_and_no_partial_file(tmp_path: Path) -> None:
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


def test_old_and_new_schemas_are_refused_with_advice(tmp_path: Path) -> None:
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


def test_machine_slug_is_a_folder_name_with_the_processors_generation_and_cores() -> None:
    assert set(files.machine_slug()) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")
    assert f"-{os.cpu_count()}c" in files.machine_slug() and processor().generation in files.machine_slug()
    assert files.slug("Intel(R) Xeon(R) CPU E5-2680 v4 @ 2.40GHz 28-cores") == "intel-xeon-e5-2680-v4-28-cores"


def test_the_store_needs_the_standard_library_only() -> None:
    code = (
        "import sys, harness.store.files; print([m for m in ('numpy', 'torch', 'hydra', 'pandas') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
