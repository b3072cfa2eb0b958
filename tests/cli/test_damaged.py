"""Commands over a folder of whole and damaged records: each names the damaged ones and does its work on the others."""

import importlib
import random
import shutil
from pathlib import Path

import pytest

from harness.store import files
from harness.store.left_out import LeftOut
from tests import factory
from tests.cli.test_commands import harness
from tests.harness.store import damage

ROOT = Path(__file__).resolve().parents[2]
DAMAGED = 300
COMMANDS = {
    "validate": ("validate",),
    "report": ("report",),
    "export": ("export", "--out", "table.csv"),
    "compare": ("compare", "results", "before"),
    "engines": ("compare", "agl", "dgl"),
    "import": ("import", "results", "--results", "taken"),
    "upgrade": ("upgrade",),
}


def fill(folder: Path) -> None:
    """Write whole records of two engines, now and before."""
    for seed in range(4):
        for backend, seconds in (("agl", 0.1), ("dgl", 0.102)):
            factory.write(folder / "results", factory.record(backend, seed, seconds))
            factory.write(folder / "before", factory.record(backend, seed, seconds))


def add_damaged(results: Path, dice: random.Random) -> set[Path]:
    """Add damaged copies of records, and other things with their names; return those that are not whole."""
    whole = list(files.record_paths(results))
    originals = [path.read_bytes() for path in whole]
    added = set()
    for number in range(DAMAGED):
        model = dice.choice(whole)
        path = model.with_name(model.name.replace("seed=", f"seed={number + 10}"))
        kind = damage.KINDS[number % len(damage.KINDS)]
        content = model.read_bytes().replace(b'"seed": ', b'"seed": %d' % (number + 10))
        path.write_bytes(kind(content, dice.choice(originals), dice))
        added.add(path)
    for name in ("folder", "link"):
        added.add(whole[0].with_name(f"seed={name}.json"))
    whole[0].with_name("seed=folder.json").mkdir()
    whole[0].with_name("seed=link.json").symlink_to("nowhere")
    return added


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, set[Path]]:
    """A checkout of whole records, the same with damaged ones, and the damaged files."""
    clean, mixed = tmp_path_factory.mktemp("clean"), tmp_path_factory.mktemp("mixed")
    fill(clean)
    shutil.copytree(clean, mixed, dirs_exist_ok=True)
    return clean, mixed, add_damaged(mixed / "results", random.Random(3))


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_names_damaged_records_and_does_its_work_on_the_others(
    folders: tuple[Path, Path, set[Path]],
    name: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    clean, mixed, damaged = folders
    command, *arguments = COMMANDS[name]
    monkeypatch.chdir(clean)
    main = importlib.import_module(f"harness.commands.{command.replace('import', 'import_')}").main
    assert main(arguments) == 0
    expected = capsys.readouterr().out
    done = harness(mixed, command, *arguments)
    assert done.returncode == 1, done
    assert "Traceback" not in done.stderr
    named = done.stdout if name == "validate" else done.stderr
    assert [path for path in damaged if str(path.relative_to(mixed)) not in named] == []
    if name != "validate":
        assert done.stdout == expected
        assert written(mixed) == written(clean)


def written(folder: Path) -> dict[str, bytes]:
    """What the commands wrote: pages, tables and imported records."""
    places = [folder / "reports", folder / "taken", folder / "table.csv"]
    paths = [path for place in places for path in (place, *place.rglob("*")) if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(3))
def test_damage_to_committed_records_ends_no_command(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    shutil.copytree(ROOT / "results", tmp_path / "results")
    every = list(files.record_paths(tmp_path / "results"))
    paths = sorted(dice.sample(every, 150))
    for path in set(every) - set(paths):
        path.unlink()
    for path in dice.sample(paths, 60):
        path.write_bytes(dice.choice(damage.KINDS)(path.read_bytes(), dice.choice(paths).read_bytes(), dice))
    left_out = LeftOut(quiet=True)
    whole = {path for path, _ in files.find_records(tmp_path / "results", left_out)}
    assert whole | set(left_out.files) == set(paths) and left_out.files
    for arguments in (("validate",), ("report",), ("export", "--out", "table.csv")):
        done = harness(tmp_path, *arguments)
        assert done.returncode == 1 and "Traceback" not in done.stderr, done
        named = done.stdout + done.stderr
        assert all(str(path.relative_to(tmp_path)) in named for path in left_out.files)
