"""Ten thousand seeded damages to committed records: refused by name, or no change at all; never a traceback."""

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from harness.store import files, frame
from harness.store.record import DamagedFile
from harness.store.rules import problems
from tests.harness.store import damage

RESULTS = Path(__file__).resolve().parents[3] / "results"
DAMAGES = 10_000
RECORDS = 40
LARGEST = 7000


def committed(dice: random.Random) -> list[Path]:
    """Some committed records, of a size that ten thousand readings allow."""
    return dice.sample([path for path in files.record_paths(RESULTS) if path.stat().st_size < LARGEST], RECORDS)


def copies(folder: Path, dice: random.Random) -> list[tuple[Path, bytes, Any]]:
    """Write copies of committed records as of today; each path with its content and its record."""
    written = []
    for path in committed(dice):
        copy = folder / path.relative_to(RESULTS)
        copy.parent.mkdir(parents=True, exist_ok=True)
        files.write_split(copy, files.read_record(path))
        written.append((copy, copy.read_bytes(), files.read_record(copy)))
    return written


def test_damage_is_found_or_changes_nothing(tmp_path: Path) -> None:
    dice = random.Random(13)
    originals, outcomes = copies(tmp_path, dice), Counter[str]()
    for number in range(DAMAGES):
        kind = damage.KINDS[number % len(damage.KINDS)]
        (path, content, record), (_, other, _) = dice.choice(originals), dice.choice(originals)
        damaged = kind(content, other, dice)
        path.write_bytes(damaged)
        try:
            read = files.read_record(path)
        except DamagedFile as error:
            assert error.path in (path, files.side_path(path)) and all(error.problems), kind
            assert str(error).isascii() and len(str(error)) < 100_000, kind
            outcomes["refused"] += 1
        else:
            assert read == record, f"damage {number}, {kind.__name__}, was not found"
            outcomes["unchanged"] += 1
    assert sum(outcomes.values()) == DAMAGES
    assert outcomes["unchanged"] < DAMAGES / 50


def test_damage_to_an_old_record_without_a_digest_leaves_a_valid_one_or_is_found(tmp_path: Path) -> None:
    dice = random.Random(14)
    originals = [(path, path.read_bytes()) for path in committed(dice)]
    for number in range(DAMAGES // 10):
        kind = damage.KINDS[number % len(damage.KINDS)]
        (path, content), (_, other) = dice.choice(originals), dice.choice(originals)
        copy = tmp_path / path.relative_to(RESULTS)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(kind(content, other, dice))
        try:
            record = files.read_record(copy)
        except DamagedFile:
            continue
        assert not list(problems(record)) and frame.row(copy, record)


@pytest.mark.parametrize("kind", damage.KINDS, ids=lambda kind: kind.__name__)
def test_each_kind_of_damage_changes_a_file(kind: Any) -> None:
    dice = random.Random(15)
    one, two = (path.read_bytes() for path in committed(dice)[:2])
    assert any(kind(one, two, dice) != one for _ in range(5))
