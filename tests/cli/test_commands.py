"""The commands over records, as a user calls them: output, written files, exit codes."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pandas
import pytest

from harness.commands.compare import main as compare
from harness.commands.report import main as report
from harness.commands.validate import unsupported_claims
from harness.report import published
from harness.report.write import write_reports
from harness.store.files import record_paths
from tests import factory

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = ("report", "compare", "validate", "import", "upgrade", "sync", "export")


def harness(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run ``python -m harness`` in a folder."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "WANDB_MODE": "offline"}
    command = [sys.executable, "-m", "harness", *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def fill(folder: Path, seconds: float = 0.1, status: str = "ok", torch: str = "2.13.0", seeds: int = 3) -> Path:
    """Write agl and dgl on some seeds; agl takes ``seconds``."""
    environment = {"checked": factory.ENVIRONMENT["checked"] | {"torch": torch, "sources": str(seconds)}}
    for seed in range(seeds):
        factory.write(folder, factory.record("agl", seed, seconds, status), environment=environment)
        factory.write(folder, factory.record("dgl", seed, 0.1), environment=environment)
    return folder


def git(folder: Path, *arguments: str) -> None:
    """Run git in a folder with a test's author."""
    names = {f"GIT_{who}_{what}": "test@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    subprocess.run(["git", *arguments], cwd=folder, env=os.environ | names, check=True, capture_output=True)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_ends_with_zero_and_imports_no_torch(tmp_path: Path, command: str) -> None:
    done = harness(tmp_path, command, "--help")
    assert done.returncode == 0
    assert f"python -m harness {command}" in done.stdout


def test_no_records_end_with_two_and_one_sentence(tmp_path: Path) -> None:
    others = (["export", "--out", "t.csv"], ["compare", "a", "b"], ["import", "nowhere"])
    for arguments in (["report"], ["sync"], ["upgrade"], *others):
        done = harness(tmp_path, *arguments)
        assert done.returncode == 2, done
        assert done.stderr.startswith("error: ")
        assert "Traceback" not in done.stderr
    assert harness(tmp_path, "validate").returncode == 2
    assert not list(tmp_path.iterdir())


def test_pages_of_others_may_be_folders_or_in_another_encoding(tmp_path: Path) -> None:
    fill(tmp_path / "results", seeds=1)
    (tmp_path / "reports" / "folder.md").mkdir(parents=True)
    (tmp_path / "reports" / "latin.md").write_bytes("Über".encode("latin-1"))
    for command in ("report", "validate"):
        done = harness(tmp_path, command)
        assert done.returncode == 0, done
    assert (tmp_path / "reports" / "latin.md").read_bytes() == "Über".encode("latin-1")


@pytest.mark.parametrize("variable", ["HARNESS_DATA", "HARNESS_CACHE"])
def test_a_home_that_is_not_known_is_named(tmp_path: Path, variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, "~no-such-user/data")
    done = harness(tmp_path, "dataset=cora", "model=gcn")
    assert done.returncode == 2 and done.stderr.startswith("error: $HARNESS_DATA or $HARNESS_CACHE"), done
    assert "Traceback" not in done.stderr and "give a path without ~" in done.stderr


def test_a_part_of_the_results_is_validated_by_itself(tmp_path: Path) -> None:
    fill(tmp_path / "results", seeds=1)
    git(tmp_path, "init")
    git(tmp_path, "add", "results")
    other = factory.write(tmp_path / "results", factory.record("dgl", 7), machine="another-machine")
    harness(tmp_path, "report")
    forgotten = f"{other}: is cited by a report, but not committed: git add it"
    assert forgotten in harness(tmp_path, "validate").stdout
    part = harness(tmp_path, "validate", "--results", f"results/{factory.MACHINE}")
    assert "committed" not in part.stdout and "0 problems" in part.stdout, part


def test_report_then_validate_over_a_checkout(tmp_path: Path) -> None:
    fill(tmp_path / "results")
    git(tmp_path, "init")
    git(tmp_path, "add", "results")
    assert harness(tmp_path, "validate").returncode == 1
    assert harness(tmp_path, "report").returncode == 0
    good = harness(tmp_path, "validate")
    assert (good.returncode, good.stdout) == (0, "6 records, 0 problems\n")
    extra = factory.record("pyg", 0)
    path = factory.write(tmp_path / "results", extra, environment=factory.ENVIRONMENT)
    assert harness(tmp_path, "validate").returncode == 0, "what is not committed need not be cited"
    git(tmp_path, "add", "results")
    uncited = harness(tmp_path, "validate")
    assert uncited.returncode == 1
    assert f"{path}: is committed, but no report cites it" in uncited.stdout
    harness(tmp_path, "report")
    git(tmp_path, "rm", "--cached", "--quiet", str(path))
    forgotten = harness(tmp_path, "validate")
    assert forgotten.returncode == 1
    assert f"{path}: is cited by a report, but not committed: git add it" in forgotten.stdout
    path.unlink()
    gone = harness(tmp_path, "validate")
    assert gone.returncode == 1
    assert "which does not exist" in gone.stdout


def test_records_in_a_folder_of_any_name_are_cited(tmp_path: Path) -> None:
    results, reports = fill(tmp_path / "my results (100 %)", seeds=1), tmp_path / "reports"
    write_reports(results, reports)
    git(tmp_path, "init")
    git(tmp_path, "add", ".")
    assert not list(unsupported_claims(results, reports))
    next(record_paths(results)).unlink()
    assert any("does not exist" in problem for _, problem in unsupported_claims(results, reports))


def test_validate_names_the_file_and_the_key(tmp_path: Path) -> None:
    path = factory.write(tmp_path / "results", factory.record())
    path.write_text(path.read_text().replace('"parse": 0.2', '"parse": -0.2', 1))
    done = harness(tmp_path, "validate")
    assert done.returncode == 1
    assert "prepare.parse is -0.2: allowed is float >= 0" in done.stdout
    assert path.name in done.stdout


@pytest.mark.parametrize(
    ("change", "code", "word"),
    [
        ({"seconds": 0.1001}, 0, "not significant"),
        ({"seconds": 0.13}, 3, "slower"),
        ({"seconds": 0.07}, 0, "faster"),
        ({"seconds": 0.13, "seeds": 1}, 0, "undecided: one process of each"),
        ({"status": "oom"}, 3, "fails now"),
        ({"seconds": 0.13, "torch": "2.14.0"}, 2, "not comparable"),
    ],
)
def test_compare_two_folders(tmp_path: Path, change: dict[str, object], code: int, word: str) -> None:
    fill(tmp_path / "old", seeds=int(str(change.get("seeds", 3))))
    fill(tmp_path / "new", **change)  # type: ignore[arg-type]
    done = harness(tmp_path, "compare", "old", "new")
    assert done.returncode == code, done
    agl = next(line for line in done.stdout.splitlines() if "agl" in line)
    assert word in agl
    if word == "not comparable":
        assert "torch 2.13.0 against 2.14.0" in agl


def test_compare_needs_the_factor_and_the_interval(tmp_path: Path) -> None:
    fill(tmp_path / "old")
    fill(tmp_path / "new", seconds=0.13)
    assert harness(tmp_path, "compare", "old", "new", "--threshold", "1.5").returncode == 0
    refused = harness(tmp_path, "compare", "old", "new", "--threshold", "1")
    assert refused.returncode == 2 and "give a factor above 1" in refused.stderr
    assert harness(tmp_path, "compare", "old", "new", "--threshold", "1e200").returncode == 2


def test_compare_names_the_cells_that_only_one_folder_has(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old, new = fill(tmp_path / "old"), fill(tmp_path / "new")
    factory.write(old, factory.record("pyg"))
    for variant in range(7):
        factory.write(new, factory.record("pyg"), folder=f"variant-{variant}")
    compare([str(old), str(new)])
    counts, of_old, of_new = capsys.readouterr().out.splitlines()[-3:]
    assert counts.startswith("2 cells compared")
    assert re.fullmatch(r"not compared, as only A has 1 cell: cora gat pyg train \(hash-x-x\)", of_old)
    assert re.fullmatch(r"not compared, as only B has 7 cells: (cora gat pyg [^,]*, ){5}2 more", of_new)


def test_compare_two_engines_inside_their_groups(tmp_path: Path) -> None:
    fill(tmp_path / "results", seconds=0.05)
    slower = harness(tmp_path, "compare", "agl", "dgl")
    assert slower.returncode == 3
    assert "slower" in slower.stdout
    assert harness(tmp_path, "compare", "dgl", "agl").returncode == 0
    unknown = harness(tmp_path, "compare", "agl", "dlg")
    assert unknown.returncode == 2
    assert "those like it are 'dgl'" in unknown.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["old", "new", "--pairs", "8"], "--pairs 8: pairs of runs need --run"),
        (["agl", "dgl", "--pairs", "8"], "--pairs 8: pairs of runs need --run"),
        (["old", "new", "--results", "results"], "--results results is for two engines, both folders"),
        (["--run", "old", "new", "--results", "results"], "--results results is for two engines, with --run"),
    ],
    ids=["pairs-of-folders", "pairs-of-engines", "results-of-folders", "results-of-checkouts"],
)
def test_compare_refuses_options_that_it_would_not_read(
    arguments: list[str],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name in ("old", "new", "results"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as end:
        compare(arguments)
    assert end.value.code == 2 and words in capsys.readouterr().err


def test_a_wrong_file_of_a_suite_is_named_by_the_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    factory.write(tmp_path / "results", factory.record())
    (tmp_path / "conf" / "suite").mkdir(parents=True)
    (tmp_path / "conf" / "suite" / "mine.yaml").write_text("name: mine\ntitle: [unclosed\n")
    monkeypatch.setattr(published, "CONF", tmp_path / "conf")
    published.suites.cache_clear()
    try:
        assert report(["--results", str(tmp_path / "results"), "--out", str(tmp_path / "reports")]) == 2
    finally:
        published.suites.cache_clear()
    errors = capsys.readouterr().err
    assert "error: " in errors and "mine.yaml: while parsing" in errors
    assert not (tmp_path / "reports").exists()


def test_import_copies_and_never_overwrites(tmp_path: Path) -> None:
    fill(tmp_path / "other", seeds=2)
    big = factory.record("pyg", facts={"blocks": list(range(9000))})
    factory.write(tmp_path / "other", big)
    first = harness(tmp_path, "import", "other")
    assert (first.returncode, first.stdout.split()[0]) == (0, "5")
    copied = {path.relative_to(tmp_path / "results") for path in (tmp_path / "results").rglob("*.json")}
    assert copied == {path.relative_to(tmp_path / "other") for path in (tmp_path / "other").rglob("*.json")}
    assert harness(tmp_path, "import", "other").stdout.startswith("0 records imported into results, 5 were there")
    fill(tmp_path / "other", seconds=0.1, seeds=1)
    changed = factory.write(tmp_path / "other", big | {"warmup": [7.0]})
    factory.write(tmp_path / "other", factory.record("reference"))
    before = {path: path.read_bytes() for path in (tmp_path / "results").rglob("*.json")}
    refused = harness(tmp_path, "import", "other")
    assert refused.returncode == 1
    assert changed.name in refused.stderr
    assert before == {path: path.read_bytes() for path in (tmp_path / "results").rglob("*.json")}


def test_a_part_of_a_results_folder_is_imported_to_its_place(tmp_path: Path) -> None:
    fill(tmp_path / "other", seeds=2)
    part = next(path for path in (tmp_path / "other").glob("*/*/*/agl"))
    assert harness(tmp_path, "import", str(part)).returncode == 0
    copied = {path.relative_to(tmp_path / "results") for path in (tmp_path / "results").rglob("seed=*.json")}
    assert copied == {path.relative_to(tmp_path / "other") for path in part.rglob("seed=*.json")} != set()


def test_a_record_that_is_a_link_out_of_the_folder_is_imported(tmp_path: Path) -> None:
    fill(tmp_path / "other", seeds=1)
    record = next((tmp_path / "other").rglob("agl/**/seed=0*.json"))
    (tmp_path / "archive").mkdir()
    record.rename(tmp_path / "archive" / record.name)
    record.symlink_to(tmp_path / "archive" / record.name)
    assert harness(tmp_path, "import", "other").stdout.startswith("2 records imported")
    copied = tmp_path / "results" / record.relative_to(tmp_path / "other")
    assert not copied.is_symlink() and copied.read_bytes() == record.read_bytes()


def test_a_folder_on_another_disk_that_is_linked_is_read_like_the_others(tmp_path: Path) -> None:
    fill(tmp_path / "results", seeds=1)
    machine = tmp_path / "results" / factory.MACHINE
    machine.rename(tmp_path / "disk")
    machine.symlink_to(tmp_path / "disk")
    assert harness(tmp_path, "import", "results", "--results", "copy").stdout.startswith("2 records imported")
    assert len(list((tmp_path / "copy" / factory.MACHINE).rglob("seed=*.json"))) == 2
    done = harness(tmp_path, "compare", "results", "copy")
    assert done.returncode == 0 and "agl" in done.stdout, done


def test_a_place_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    fill(tmp_path / "results", seeds=1)
    (tmp_path / "file").write_text("no folder")
    for arguments in (
        ["import", "results", "--results", "file"],
        ["report", "--out", "file"],
        ["export", "--out", "file/table.csv"],
    ):
        done = harness(tmp_path, *arguments)
        assert (done.returncode, len(done.stderr.splitlines())) == (1, 1), done
        assert done.stderr.startswith("error: file") and "name another folder" in done.stderr


def test_import_leaves_damaged_records_out(tmp_path: Path) -> None:
    fill(tmp_path / "other", seeds=2)
    bad = next((tmp_path / "other").rglob("agl/**/seed=0*.json"))
    bad.write_text(bad.read_text().replace('"parse": 0.2', '"parse": 0.3'))
    done = harness(tmp_path, "import", "other")
    assert (done.returncode, done.stdout.split()[0]) == (1, "3")
    assert f"{bad.name}: digest is" in done.stderr
    assert not list((tmp_path / "results").rglob("agl/**/seed=0*.json"))


def test_import_leaves_records_without_an_environment_out(tmp_path: Path) -> None:
    fill(tmp_path / "other", seeds=1)
    shutil.rmtree(tmp_path / "other" / "environments")
    done = harness(tmp_path, "import", "other")
    assert done.returncode == 1
    assert "environment" in done.stderr
    assert not (tmp_path / "results").exists()


def test_upgrade_and_the_error_of_other_commands_on_an_unknown_record(tmp_path: Path) -> None:
    path = factory.write(tmp_path / "results", factory.record())
    assert harness(tmp_path, "upgrade").stdout.startswith("0 records upgraded")
    path.write_text(json.dumps(json.loads(path.read_text()) | {"schema_version": 99}))
    newer = harness(tmp_path, "report")
    assert newer.returncode == 2
    assert "update the harness" in newer.stderr
    assert harness(tmp_path, "upgrade").returncode == 1


@pytest.mark.parametrize("name", ["table.csv", "deep/table.parquet"])
def test_export(tmp_path: Path, name: str) -> None:
    fill(tmp_path / "results")
    assert harness(tmp_path, "export", "--out", name).returncode == 0
    out = tmp_path / name
    table = pandas.read_csv(out) if out.suffix == ".csv" else pandas.read_parquet(out)
    assert len(table) == 6
    assert set(table["config.backend.name"]) == {"agl", "dgl"}
    wrong = harness(tmp_path, "export", "--out", "table.xlsx")
    assert wrong.returncode == 2
    assert ".csv, .parquet" in wrong.stderr


def test_sync_replays_offline(tmp_path: Path) -> None:
    fill(tmp_path / "results", seeds=1)
    done = harness(tmp_path, "sync", "--mode", "offline")
    assert done.returncode == 0, done
    assert "2 records replayed" in done.stdout
    assert len(list((tmp_path / "wandb").glob("offline-run-*"))) == 2
