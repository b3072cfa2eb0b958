"""Files of records: written whole or not at all, read back unchanged, refused when invalid."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.store import files, validate
from harness.store.left_out import LeftOut
from harness.store.processor import processor
from harness.store.record import MEASURED, DamagedFile, RecordError
from harness.store.rules import problems
from harness.store.sections import EngineFacts
from harness.store.versions import SCHEMA_VERSION
from harness.store.violations import LARGEST
from tests import factory

FINITE = st.floats(-LARGEST, LARGEST)
WHOLE = st.integers(-(10**30), 10**30)


JSON = st.recursive(
    st.none() | st.booleans() | WHOLE | FINITE | st.text(),
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


@given(facts=st.dictionaries(st.text().filter(lambda name: name not in EngineFacts.__annotations__), JSON))
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
    assert not list(problems(record))


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


def test_records_of_other_schemas_are_refused_with_advice(tmp_path: Path) -> None:
    path = factory.write(tmp_path, factory.record())
    values = json.loads(path.read_text())
    for version, advice in (
        (0, "allowed are 1 to"),
        (True, "allowed are 1 to"),
        (None, "allowed are 1 to"),
        (SCHEMA_VERSION + 1, "update the harness"),
    ):
        path.write_text(json.dumps(values | {"schema_version": version}))
        with pytest.raises(DamagedFile, match=advice):
            files.read_record(path)
    path.write_text("{")
    with pytest.raises(DamagedFile, match="measure the cell again"):
        files.read_record(path)


def test_an_older_record_is_upgraded_when_it_is_read_and_left_as_it_is(tmp_path: Path) -> None:
    path = old_record(tmp_path)
    before = path.read_bytes()
    record = files.read_record(path)
    assert (record["schema_version"], record["epochs"]["calls"]) == (SCHEMA_VERSION, [1] * 6)
    assert "digest" not in record
    assert path.read_bytes() == before


def old_record(results: Path) -> Path:
    """Write a record as protocol 1 did, and return its path."""
    path = factory.write(results, factory.record())
    values = json.loads(path.read_text())
    for key in ("digest", "processes"):
        del values[key]
    for key in ("calls", "process", "first"):
        del values["epochs"][key]
    path.write_text(files.dump(values | {"schema_version": 1, "protocol": 1}))
    return path


@pytest.mark.parametrize("change", ["digit", "file name", "folder", "version 1", "no digest", "side file"])
def test_a_change_that_leaves_a_valid_record_is_found(tmp_path: Path, change: str) -> None:
    path = factory.write(tmp_path, factory.record(facts={"blocks": list(range(9000))}))
    text, moved = path.read_text(), path
    if change == "digit":
        path.write_text(text.replace('"parse": 0.2', '"parse": 0.3'))
    elif change == "version 1":
        path.write_text(text.replace('"schema_version": 2', '"schema_version": 1'))
    elif change == "no digest":
        path.write_text(re.sub(r',\n "digest": "\w+"', "", text))
    elif change == "side file":
        side = files.side_path(path)
        side.write_text(side.read_text().replace("8999", "8998"))
    else:
        name = path.name.replace(".g0.", ".g1.") if change == "file name" else path.name
        moved = (path.parent.with_name("other") if change == "folder" else path.parent) / name
        moved.parent.mkdir(exist_ok=True)
        files.side_path(path).rename(files.side_path(moved))
        path.rename(moved)
    with pytest.raises(DamagedFile, match="group=g1" if change == "file name" else "digest"):
        files.read_record(moved)


@pytest.mark.parametrize("key", ["facts", "../../secret", "status"])
def test_a_side_file_must_fit_its_record(tmp_path: Path, key: str) -> None:
    path = factory.write(tmp_path, factory.record())
    values = json.loads(path.read_text()) | {"side": [key]}
    path.write_text(files.dump(values))
    files.side_path(path).write_text(json.dumps({"other": 1}))
    with pytest.raises(DamagedFile, match="stands here and in" if key in values else "is missing"):
        files.read_record(path)


def test_a_record_that_replaces_a_large_one_never_stands_beside_its_side_file(tmp_path: Path) -> None:
    table = {"blocks": list(range(9000))}
    path = factory.write(tmp_path, factory.record(facts=table))
    script = (
        "import os, pathlib, sys\nfrom tests import factory\nreplace = pathlib.Path.replace\n"
        "def end(self, target):\n    replace(self, target)\n"
        "    if str(target).endswith('.side.json'): os._exit(1)\n"
        "pathlib.Path.replace = end\n"
        "factory.write(pathlib.Path(sys.argv[1]), factory.record(seconds=9, facts={'blocks': list(range(9001))}))\n"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], env=environment, check=False)
    assert done.returncode == 1 and not path.exists()


def test_a_value_of_the_engine_that_breaks_a_rule_makes_an_error(tmp_path: Path) -> None:
    record = files.read_record(factory.write(tmp_path, factory.record(facts={"spmm": [{"nnz": -1}]})))
    assert record["status"] == "error"
    assert "facts.spmm[0].nnz is -1" in record["message"] and "facts" not in record


def test_a_failed_cell_keeps_its_status_when_an_answer_of_the_engine_breaks_a_rule(tmp_path: Path) -> None:
    values = factory.record(status="incorrect", message="the loss is wrong", parity={"small graph": {"loss": 1e300}})
    record = files.read_record(factory.write(tmp_path, values))
    assert record["status"] == "incorrect" and "parity" not in record
    assert "the loss is wrong" in record["message"] and "parity.small graph.loss is 1e+300" in record["message"]


def test_a_log_with_half_a_character_is_written(tmp_path: Path) -> None:
    record = files.read_record(factory.write(tmp_path, factory.record(status="error", log_tail="a\udcffb")))
    assert record["log_tail"] == "a\\udcffb"


def test_records_that_cannot_be_read_are_named_and_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = factory.write(tmp_path, factory.record())
    bad = {name: good.with_name(f"seed={name}.json") for name in ("folder", "link", "pipe", "empty", "bytes", "deep")}
    bad["folder"].mkdir()
    bad["link"].symlink_to(tmp_path / "nowhere")
    os.mkfifo(bad["pipe"])
    bad["empty"].touch()
    bad["bytes"].write_bytes(b'{"status": "\xff"}')
    bad["deep"].write_text('{"config": ' * 100_000)
    left_out = LeftOut()
    assert [path for path, _ in files.find_records(tmp_path, left_out)] == [good]
    assert set(left_out.files) == set(bad.values()) and left_out.exit_code() == 1
    printed = capsys.readouterr().err
    assert all(f"{path}: cannot be read (" in printed for path in bad.values())


@pytest.mark.parametrize("name", ["../../../etc", "0" * 11, "A" * 12])
def test_an_environment_outside_its_folder_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(RecordError, match="allowed are 12 hexadecimal digits"):
        files.environment_of(tmp_path, name)


def test_a_changed_environment_is_refused_and_written_anew(tmp_path: Path) -> None:
    path = factory.write(tmp_path, factory.record())
    (environment,) = (tmp_path / "environments").iterdir()
    environment.write_text(environment.read_text().replace("2.13.0", "2.14.0"))
    with pytest.raises(RecordError, match="was changed"):
        files.environment_of(tmp_path, environment.stem)
    assert not list(files.find_records(tmp_path))
    factory.write(tmp_path, factory.record())
    assert [whole for whole, _ in files.find_records(tmp_path)] == [path]


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


def test_the_store_needs_the_standard_library_and_msgspec_only() -> None:
    code = (
        "import sys; before = {name.partition('.')[0] for name in sys.modules}\n"
        "import harness.store.files, harness.store.upgrade, harness.store.validate\n"
        "after = {name.partition('.')[0] for name in sys.modules} - before - set(sys.stdlib_module_names)\n"
        "print(sorted(after - {'typing_extensions'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['backends', 'datasets', 'harness', 'msgspec']"


def test_a_record_at_another_depth_is_left_out_and_a_part_of_a_folder_is_not(tmp_path: Path) -> None:
    path = factory.write(tmp_path, factory.record())
    shutil.copytree(tmp_path / factory.MACHINE, tmp_path / "backup" / factory.MACHINE)
    left_out = LeftOut(quiet=True)
    assert [place for place, _ in files.find_records(tmp_path, left_out)] == [path]
    ((wrong, problems_there),) = left_out.files.items()
    assert wrong == tmp_path / "backup" / path.relative_to(tmp_path)
    assert problems_there[0].startswith("lies at backup")
    for part in (tmp_path / factory.MACHINE, path.parent):
        assert [place for place, _ in files.find_records(part)] == [path]
        assert not list(validate.problems_in(part))


def test_linked_folders_are_read_once(tmp_path: Path) -> None:
    results, elsewhere = tmp_path / "results", tmp_path / "elsewhere"
    path = factory.write(results, factory.record())
    machine = results / factory.MACHINE
    machine.rename(elsewhere)
    machine.symlink_to(elsewhere)
    (elsewhere / "circle").symlink_to(results)
    (results / "upwards").symlink_to(tmp_path)
    (results / "again").symlink_to(results / "environments")
    assert list(files.record_paths(results)) == [path]


def test_the_name_of_a_superseded_record_has_its_own_run(tmp_path: Path) -> None:
    path = factory.write(tmp_path, factory.record(run="1" * 12))
    record = files.read_record(path)
    for run in ("1" * 12, "2" * 12):
        files.write_split(files.earlier_path(path, run), record)
    names = [place.name for place in files.group_record_paths(path.parent, 0, "g0")]
    assert names == [f"{path.stem}.{'1' * 12}.json", f"{path.stem}.{'2' * 12}.json", path.name]
    earlier = files.read_record(files.earlier_path(path, "1" * 12))
    assert earlier == record | {"digest": earlier["digest"]} != record
    with pytest.raises(DamagedFile, match=f"is named run={'2' * 12}, but its run is '{'1' * 12}'"):
        files.read_record(files.earlier_path(path, "2" * 12))
    assert len(list(validate.problems_in(tmp_path))) == 1
