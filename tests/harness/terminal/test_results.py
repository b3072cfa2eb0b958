"""Tables of a run: every one has a title of its own."""

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from harness.planning.compose import compose_one
from harness.planning.config import load
from harness.planning.plan import PlannedRun, form_groups
from harness.report.rows import rows
from harness.store.files import read_record
from harness.terminal.results import HEAD, _dense_share, print_results, titles
from tests import factory

BASE = ["backend=dummy", "dataset.options.nodes=500", "dataset=uug", "model=gat"]
CHOICES = [
    ["model.layers=3"],
    ["model.hidden=32"],
    ["model.heads=2"],
    ["model.fanouts=[5,5]", "training.batch_size=64"],
    ["training.batch_size=64"],
    ["training.batch_size=128"],
    ["dataset.options.nodes=600"],
    ["order=rcm"],
    ["threads=1"],
    ["training.dtype=bf16"],
    ["launcher.allocator=stock", "model.layers=4"],
    ["measure=short", "model.layers=4"],
    ["seed=1"],
]


def groups(*choices: list[str]) -> list[Any]:
    runs = [PlannedRun(load(compose_one([*BASE, *choice]))) for choice in choices]
    return form_groups(runs, lambda config: {"threads": config.threads})


def test_every_table_of_one_output_has_its_own_title() -> None:
    tables = {group.id: [group] for group in groups([], *CHOICES)}
    names = titles(tables)
    assert len(set(names)) == len(names) == len(CHOICES) + 1
    assert titles(dict([next(iter(tables.items()))])) == ["uug gat train cpu threads=2"]


def test_tables_of_another_depth_name_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    planned = groups(["model.layers=2"], ["model.layers=3"])
    for group in planned:
        (cell,) = group.cells
        record = factory.record("dummy", 0, config=asdict(cell.config), group=group.id)
        path = factory.write(tmp_path, record, folder=cell.hash)
        group.records = [(path, read_record(path))]
    print_results(planned, {})
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("uug")] == [
        f"uug gat train cpu threads=2 layers={layers}" for layers in (2, 3)
    ]


def test_notes_on_the_data_set_stand_below_its_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (group,) = groups([])
    (cell,) = group.cells
    record = factory.record("dummy", 0, config=asdict(cell.config), group=group.id)
    path = factory.write(tmp_path, record | {"dataset": record["dataset"] | {"notes": ["features: sparse as asked"]}})
    group.records = [(path, read_record(path))]
    print_results([group], {})
    assert capsys.readouterr().out.splitlines()[-1] == "  features: sparse as asked"


def test_a_terminal_narrower_than_a_table_shows_all_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    (group,) = groups([])
    (cell,) = group.cells
    variant = "words of a variant " * 10
    record = factory.record("dummy", 0, config=asdict(cell.config), group=group.id)
    path = factory.write(tmp_path, record | {"facts": {"variant": variant.strip()}})
    group.records = [(path, read_record(path))]
    print_results([group], {})
    table = capsys.readouterr().out
    assert all(name in table for name in (*HEAD, variant.strip()))


@pytest.mark.parametrize(
    ("facts", "sentences"),
    [
        ({"tiles": {"forward": 0.25, "backward": 0.0}, "threshold": {"forward": 0.05}},
         ["forward: 25.0% of the edges in tiles that are dense from 0.05 on"]),
        ({"tiles": {"forward": "auto"}, "threshold": {"forward": 1}}, []),
        ({"tiles": 3, "threshold": "none"}, []),
        ({}, []),
    ],
)  # fmt: skip
def test_the_share_of_the_edges_in_dense_tiles_is_printed(facts: dict[str, Any], sentences: list[str]) -> None:
    record = factory.record("dummy", 0, 0.01, protocol=1) | {"facts": facts}
    (row,) = rows([(Path("machine/uug/gat/dummy/train/x/seed=0.json"), record)], {})
    assert _dense_share(row) == sentences
