"""The command line as a user calls it: exit codes, messages, files left behind."""

import fcntl
import json
import subprocess
import sys
from pathlib import Path

import pytest

from backends.registry import config_class
from harness.__main__ import dispatch, main
from harness.commands import fetch
from harness.commands.plan import main as plan
from harness.store.files import machine_slug
from tests.cli.commandline import CommandLine

ROOT = Path(__file__).resolve().parent.parent.parent
QUICK = ["backend=dummy", "launcher=inline", "dataset.options.nodes=500", "measure=short"]


@pytest.fixture
def harness(tmp_path: Path) -> CommandLine:
    return CommandLine(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["+backend.prunning=true"], ("'backend.prunning'", "backend.form", "did you mean 'backend.pruning'")),
        (["backend.prunning=true"], ("'backend.prunning'", "did you mean 'backend.pruning'")),
        (["++seeed=3"], ("'seeed'", "allowed are", "did you mean 'seed'")),
        (["seeed=3"], ("'seeed'", "did you mean 'seed'")),
        (["dataset=corra"], ("dataset 'corra'", "citeseer", "did you mean 'cora'")),
        (["backend=agll"], ("backend 'agll'", "reference", "did you mean 'agl'")),
        (["modell=gcn"], ("'modell'", "did you mean 'model'")),
        (["+model=gcn"], ("chosen already", "write model=NAME")),
        (["ablation=pruning"], ("write +ablation=NAME",)),
        (["+ablation=prunin"], ("ablation 'prunin'", "did you mean 'pruning'")),
        (["+ablation=[base,pruning]"], ("'base' stands alone", "pruning")),
        (["+ablation=pruning", "backend.pruning=false"], ("changes nothing", "backend.pruning=false")),
        (
            ["+ablation=pruning", *(f"backend.{name}=true" for name in ("partition", "pipeline", "sparse"))],
            ("changes nothing",),
        ),
        (["+suite=corra_accuracy"], ("suite 'corra_accuracy'", "did you mean 'cora_accuracy'")),
        (["threads=abc"], ("threads", "abc")),
        (["threads=0"], ("threads=0", "at least 1")),
        (["model.fanouts=[a"], ("model.fanouts=[a", "key=value")),
        (["backend=agl,dgl"], ("backend",)),
        (["-m", "dataset=cora,corra"], ("dataset 'corra'",)),
        (["-m", *QUICK, "seed=range(0,0)"], ("the sweep has no cell", "seed=range(0,0) stands for no value")),
        (["-m", "backend=glob(zz*)"], ("the sweep has no cell", "backend=glob(zz*)")),
        (["plan", "--out", "there", "-m", *QUICK, "seed=range(0,0)"], ("the sweep has no cell",)),
        (["fetch", "-m", "dataset=glob(zz*)"], ("the sweep has no cell", "dataset=glob(zz*)")),
        (["fetch", "dataset=uug", "+dataset.options.nodez=3"], ("'nodez'", "allowed are nodes")),
        (["fetch", "dataset=uug", "dataset.options.nodes=5"], ("nodes=5", "100 and more")),
        (["fetch", "dataset=tables"], ("path of the nodes table", "+dataset.options.nodes=PATH")),
        (["-m", *QUICK, "seed=0,1", "hydra.sweeper.max_batch_size=0"], ("hydra.sweeper.max_batch_size", "1 or more")),
        (["-m", *QUICK, "results=a,b"], ("results is a, b", "one value")),
        (
            ["-m", *QUICK, "seed=0,1", "scenario.save_state=best.npz"],
            ("best.npz would be written by 2 cells", "${seed}"),
        ),
        ([*QUICK, "scenario.save_state=/proc/nowhere/best.npz"], ("/proc/nowhere is not writable",)),
        ([*QUICK, "+dataset.options.nodez=3"], ("'nodez'", "nodes")),
        (["dataset=reddit"], ("$HARNESS_DATA", "cache", "network", "fetch dataset=reddit")),
        ([*QUICK, "results=/proc/nowhere"], ("/proc/nowhere", "not writable")),
        (["lst"], ("command 'lst'", "did you mean 'list'")),
        (["launcher.python=/no/python"], ("/no/python", "path of a Python")),
    ],
)
def test_misuse_ends_with_2_and_says_what_to_do(
    arguments: list[str],
    words: tuple[str, ...],
    harness: CommandLine,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In this process: the start of an interpreter would take longer than the test."""
    monkeypatch.chdir(harness.home)
    for name in ("TMPDIR", "HARNESS_CACHE", "HARNESS_MIRROR"):
        monkeypatch.setenv(name, harness.environment[name])
    monkeypatch.setattr("tempfile.tempdir", None)
    assert dispatch(arguments) == 2
    errors = capsys.readouterr().err
    assert errors.startswith("error: ")
    for word in words:
        assert word in errors
    assert harness.records() == []


def test_help_is_quick_to_load_and_leaves_nothing(harness: CommandLine) -> None:
    code = (
        "import sys; sys.argv = ['harness', '--help']\n"
        "from harness.__main__ import main\n"
        "try: main()\n"
        "except SystemExit as end: assert not end.code\n"
        "heavy = {'torch', 'dgl', 'torch_geometric', 'pandas', 'scipy', 'wandb', 'matplotlib'} & set(sys.modules)\n"
        "sys.exit(f'--help imports {heavy}' if heavy else 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=harness.home, env=harness.environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "+ablation=pruning" in done.stdout and "backend: agl, blocksparse, dgl" in done.stdout
    assert harness.left() == []


def test_looking_at_the_configuration_runs_nothing(harness: CommandLine) -> None:
    assert "name: cora" in harness("--cfg", "job", "dataset=cora").stdout
    assert "recipe/cora_gat" in harness("--info", "defaults", "dataset=cora").stdout
    assert "backend=agl" in harness.complete("backend=a")
    assert harness.left() == []


def test_a_run_writes_one_record_and_a_table_and_the_second_call_runs_nothing(harness: CommandLine) -> None:
    first = harness(*QUICK)
    (record,) = harness.records()
    assert record["status"] == "ok" and record["overrides"] == QUICK
    assert set(record["prepare"]) >= {"parse", "order"}
    for word in ("uug gat train cpu", "dummy", "ok", "time", "to fastest peer", "hit rate", "peak memory"):
        assert word in first.stdout
    assert harness.left() == ["results"]
    second = harness(*QUICK)
    assert "nothing to run: all 1 groups are finished" in second.stdout and "first call" in second.stdout
    assert harness.records() == [record]


def test_parameters_that_are_asked_for_later_are_written(harness: CommandLine) -> None:
    harness(*QUICK)
    saved = [*QUICK, "scenario.save_state=best.npz"]
    harness(*saved)
    assert (harness.home / "best.npz").is_file()
    assert "nothing to run" in harness(*saved).stdout


def test_a_sweep_runs_only_cells_without_a_record(harness: CommandLine) -> None:
    harness(*QUICK)
    (first,) = harness.records()
    done = harness("-m", *QUICK, "seed=0,1", "dry_run=true")
    assert done.stdout.count("skip, every cell has a record") == 1 and "1 cells to run" in done.stdout
    assert "about" in done.stdout and len(harness.records()) == 1
    harness("-m", *QUICK, "seed=0,1")
    assert [record["config"]["seed"] for record in harness.records()] == [0, 1]
    assert harness.records()[0] == first
    assert harness.left() == ["results"]


def test_retry_decides_which_failures_run_again(harness: CommandLine) -> None:
    harness(*QUICK, "backend.fail=raise", code=1)
    (failed,) = harness.records()
    assert failed["status"] == "error"
    unchanged = harness(*QUICK, "backend.fail=raise", "retry=none", code=1)
    assert "nothing to run" in unchanged.stdout and "error" in unchanged.stdout
    assert harness.records() == [failed]
    again = harness(*QUICK, "backend.fail=raise", code=1)
    assert "nothing to run" not in again.stdout


def test_a_machine_that_is_taken_is_not_waited_for(harness: CommandLine) -> None:
    with (harness.temporary / "gnn-harness.launcher.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = harness("backend=dummy", "dataset.options.nodes=500", "wait=false", code=2)
    assert "is measuring on this machine" in done.stderr and harness.records() == []
    assert not list(harness.cache.glob("prepared/*")), "graphs are prepared on all cores, beside the samples of another"


def test_a_disk_that_fills_ends_with_1_and_leaves_no_half_record(harness: CommandLine) -> None:
    """A limit on file sizes, set when the graph is prepared already, stands in for the full disk."""
    harness(*QUICK)
    (first,) = harness.records()
    command = f"ulimit -f 1; exec {sys.executable} -m harness {' '.join(QUICK)} retry=all"
    done = subprocess.run(
        ["bash", "-c", command], cwd=harness.home, env=harness.environment, capture_output=True, text=True
    )
    assert done.returncode == 1 and "File too large" in done.stderr and "Traceback" not in done.stderr
    assert harness.records() == [first] and not list(harness.home.rglob("*.tmp"))


@pytest.mark.parametrize(
    "part", ["environments", machine_slug(), f"{machine_slug()}/uug"], ids=["environments", "machine", "data set"]
)
def test_a_part_of_the_results_that_cannot_be_written_is_told_before_anything_is_measured(
    part: str, harness: CommandLine
) -> None:
    place = harness.home / "results" / part
    place.parent.mkdir(parents=True)
    place.write_text("a file, not a folder")
    done = harness(*QUICK, code=2)
    assert "is not writable (Not a directory at results/" in done.stderr and not list(harness.cache.glob("prepared/*"))


def test_another_interpreter_is_checked_for_its_packages(harness: CommandLine) -> None:
    harness(*QUICK, f"launcher.python={sys.executable}", "dry_run=true")
    bare = harness.home.parent / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(bare)], check=True)
    done = harness(*QUICK, f"launcher.python={bare}/bin/python", code=1)
    (record,) = harness.records()
    assert record["status"] == "not_installed" and "pip install torch" in record["message"]
    assert "pip install torch" in done.stdout


def test_an_ablation_of_a_peer_is_a_record_not_a_failure(harness: CommandLine) -> None:
    done = harness("backend=reference", "dataset.options.nodes=500", "+ablation=pruning")
    (record,) = harness.records()
    assert record["status"] == "unsupported" and "no ablation 'pruning'" in record["message"]
    assert "no ablation 'pruning'" in done.stdout


def test_groups_planned_here_run_elsewhere(harness: CommandLine) -> None:
    harness("plan", "--out", "there", "--with-data", "-m", *QUICK, "seed=0,1")
    planned = json.loads((harness.home / "there" / "cells.json").read_text())
    cells = [cell for group in planned["groups"] for cell in group["cells"]]
    graphs = {cell["graph"] for cell in cells}
    assert len(cells) == 2 and all((harness.home / "there" / graph / "graph.json").is_file() for graph in graphs)
    assert not any(Path(graph).is_absolute() for graph in graphs)
    command = [sys.executable, "-m", "harness.cell", "there/cells.json", "--out", "results"]
    done = subprocess.run(command, cwd=harness.home, env=harness.environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert [record["status"] for record in harness.records()] == ["ok", "ok"]
    assert "nothing to run: all 2 groups" in harness("-m", *QUICK, "seed=0,1").stdout


def test_what_is_not_installed_here_is_planned_for_where_it_may_be(
    tmp_path: Path, cache_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config_class("dummy"), "packages", ("no-such-package",))
    assert plan(["--out", str(tmp_path / "there"), "--with-data", *QUICK]) == 0
    ((cell,),) = [group["cells"] for group in json.loads((tmp_path / "there" / "cells.json").read_text())["groups"]]
    assert cell["status"] is None and (tmp_path / "there" / cell["graph"] / "graph.json").is_file()


def test_a_plan_without_graphs_says_so(harness: CommandLine) -> None:
    assert "add --with-data" in harness("plan", "--out", "there", *QUICK).stderr


def test_list_names_everything_and_its_state(harness: CommandLine) -> None:
    done = harness("list")
    for word in ("agl", "installed", "cora", "rcm", "gat", "infer", "pruning", "ppi_first", "uug_gat"):
        assert word in done.stdout
    assert harness("list", "orders").stdout.startswith("orders:\n")
    harness("list", "ordres", code=2)


@pytest.mark.real_data
def test_fetch_prints_counts_beside_the_published_ones(harness: CommandLine) -> None:
    done = harness("fetch", "dataset=cora")
    assert "2,708  published 2,708" in done.stdout and "10,556  published 5,429" in done.stdout


def test_fetch_errors_say_what_to_do(harness: CommandLine) -> None:
    assert "dataset=NAME" in harness("fetch", code=2).stderr
    assert "did you mean 'cora'" in harness("fetch", "dataset=corra", code=2).stderr
    assert "fetch dataset=reddit" in harness("fetch", "dataset=reddit", code=1).stderr


@pytest.mark.parametrize("kind", [TypeError, AttributeError, IndexError])
def test_fetch_names_the_options_where_a_loader_fails(
    kind: type[Exception], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def load(*arguments: object) -> None:
        raise kind("5 is none")

    monkeypatch.setattr(fetch, "load_dataset", load)
    assert dispatch(["fetch", "dataset=uug"]) == 1
    errors = capsys.readouterr().err
    assert errors.startswith(f"error: data set uug: {kind.__name__} (5 is none): check dataset.options=")


@pytest.mark.parametrize("command", ["fetch", "report", "list"])
def test_an_interrupt_of_a_command_is_one_sentence(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(arguments: list[str]) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(f"harness.commands.{command}.main", interrupt)
    monkeypatch.setattr(sys, "argv", ["harness", command])
    assert main() == 1
    assert capsys.readouterr().err == "error: interrupted: the same command starts over\n"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ("list", 0),
        (f"-m {' '.join(QUICK)} seed=0,1 dry_run=true", 0),
        (f"{' '.join(QUICK)} 2>&1", 0),
        ("validate", 1),
    ],
    ids=["list", "dry run", "stderr of a run", "problems"],
)
def test_a_reader_that_leaves_changes_no_exit_code(arguments: str, code: int, harness: CommandLine) -> None:
    (harness.home / "results").mkdir()
    for number in range(300):
        (harness.home / "results" / f"seed={number}.json").touch()
    command = f"set -o pipefail; {sys.executable} -m harness {arguments} | true"
    done = subprocess.run(
        ["bash", "-c", command], cwd=harness.home, env=harness.environment, capture_output=True, text=True
    )
    assert done.returncode == code and "Traceback" not in done.stderr, done


@pytest.mark.parametrize("streams", [">&-", "2>&-", ">&- 2>&-"], ids=["stdout", "stderr", "both"])
@pytest.mark.parametrize(("arguments", "code"), [("list backends", 0), ("lst", 2)], ids=["good", "misuse"])
def test_a_stream_that_the_shell_has_closed_changes_no_exit_code(
    streams: str, arguments: str, code: int, harness: CommandLine
) -> None:
    command = f"exec {sys.executable} -m harness {arguments} {streams}"
    done = subprocess.run(
        ["bash", "-c", command], cwd=harness.home, env=harness.environment, capture_output=True, text=True
    )
    assert done.returncode == code and "Traceback" not in done.stderr, done


def test_a_run_waits_for_the_machine_before_it_prepares_graphs(harness: CommandLine) -> None:
    command = ["backend=dummy", "dataset.options.nodes=500", "measure=short", "measure.limits=false"]
    with (harness.temporary / "gnn-harness.launcher.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        run = subprocess.Popen(
            [sys.executable, "-m", "harness", *command],
            cwd=harness.home,
            env=harness.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert run.stderr is not None and run.stderr.readline().startswith("waiting: another process is measuring")
        assert not list(harness.cache.glob("prepared/*"))
    _, errors = run.communicate(timeout=240)
    assert run.returncode == 0, errors
    assert [record["status"] for record in harness.records()] == ["ok"]
