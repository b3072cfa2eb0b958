"""Rows of a table: which records count, which peer they are compared with, ratios inside groups only."""

import re
from pathlib import Path
from typing import Any

import pytest

from harness.launcher.earlier import set_aside
from harness.report import formats
from harness.report.content import NOTHING
from harness.report.speedups import fastest_of_ours, times_as_fast
from tests import factory
from tests.harness.report.labelled_rows import rows_by_label


def test_the_fastest_peer_is_starred_and_never_our_own_engine(results: Path) -> None:
    table = rows_by_label(results)
    assert [label for label, row in table.items() if row.fastest_peer] == ["dgl"]
    assert table["agl"].ratio_to == table["pyg"].ratio_to == "dgl"
    assert table["dgl"].ratio is not None
    assert table["dgl"].ratio.median == 1
    assert list(table) == ["agl", "dgl", "pyg", "pyg compile"]


def test_variants_and_allocators_of_a_peer_compete(results: Path) -> None:
    for seed in range(3):
        stock = factory.config("dgl", seed, launcher={"allocator": "stock"})
        factory.write(results, factory.record("dgl", seed, 0.2, config=stock), folder="stock")
        csr = factory.config("pyg", seed, backend={"variant": "csr"})
        factory.write(results, factory.record("pyg", seed, 0.015, config=csr))
    table = rows_by_label(results)
    assert table["agl"].ratio_to == "pyg csr"
    assert table["dgl stock"].ratio is not None
    assert table["dgl stock"].ratio.median > 10


def test_a_run_inline_is_no_speed_beside_the_run_in_processes(results: Path) -> None:
    for engine in ("agl", "dgl"):
        inline = factory.config(engine, 0, launcher={"name": "inline"})
        factory.write(results, factory.record(engine, 0, 0.001, config=inline), folder="inline")
    table = rows_by_label(results)
    assert set(list(table)[:2]) == {"agl inline", "dgl inline"}
    assert not table["agl inline"].timed and table["agl inline"].ratio is None
    assert fastest_of_ours(list(table.values())) is table["agl"] and table["agl"].ratio_to == "dgl"


def test_no_ratio_leaves_its_group(results: Path) -> None:
    alone = factory.config("agl", 0, order={"name": "rcm"})
    factory.write(results, factory.record("agl", 0, 0.005, config=alone, group="another"), folder="rcm")
    row = rows_by_label(results)["agl order=rcm"]
    assert row.time is not None
    assert row.ratio is None
    assert formats.ratio(row) == NOTHING


def test_lower_precision_is_labelled(results: Path) -> None:
    half = factory.config("agl", 0, training={"dtype": "bf16"})
    factory.write(results, factory.record("agl", 0, 0.004, config=half), folder="bf16")
    assert "lower precision" in formats.ratio(rows_by_label(results)["agl bf16"])
    assert "lower precision" not in formats.ratio(rows_by_label(results)["agl"])


def test_records_of_an_older_environment_are_counted_and_not_pooled(results: Path) -> None:
    old = {"checked": factory.ENVIRONMENT["checked"] | {"torch": "2.0.0"}}
    values = factory.record("agl", 5, 99.0, written="2025-01-01T00:00:00Z")
    factory.write(results, values, environment=old)
    row = rows_by_label(results)["agl"]
    assert row.older == 1
    assert [record["config"]["seed"] for _, record in row.cells] == [0, 1, 2]


def test_a_cell_measured_again_counts_once(results: Path) -> None:
    factory.write(results, factory.record("agl", 1, 0.5, group="again", written="2026-02-01T00:00:00Z"))
    row = rows_by_label(results)["agl"]
    assert len(row.ok) == 3
    assert row.older == 1
    assert row.samples()["again  0"][0] == pytest.approx(0.5, rel=0.03)


def test_one_process_gives_a_spread_and_no_interval(tmp_path: Path) -> None:
    factory.write(tmp_path / "results", factory.record("agl", 0, 0.01))
    row = rows_by_label(tmp_path / "results")["agl"]
    assert row.time is not None
    assert row.time.kind == "spread"
    assert re.fullmatch(r"[\d.]+ \([\d.]+ … [\d.]+\)", formats.measured(row.time, 1e3))


def test_a_faster_peer_of_another_group_is_not_compared(results: Path) -> None:
    csr = factory.config("pyg", 0, backend={"variant": "csr"})
    factory.write(results, factory.record("pyg", 0, 0.001, config=csr, group="another"))
    assert rows_by_label(results)["agl"].ratio_to == "dgl"


def in_processes(backend, seconds, **process):
    """A record of protocol 3: a process per item of ``seconds``, three equal samples each."""
    values = factory.record(backend, 0)
    samples = [value for value in seconds for _ in range(3)]
    numbers = [number for number in range(len(seconds)) for _ in range(3)]
    first = [2 * value for value in samples]
    values["epochs"] |= {"seconds": samples, "process": numbers, "first": first}
    values["epochs"] |= dict.fromkeys(("cpu_seconds", "loss"), samples) | {"phases": {}}
    values["epochs"]["calls"] = [1] * len(samples)
    processes = [{"first_call": 9.0} | process for _ in seconds]
    return values | {"rounds": list(range(len(samples))), "processes": processes}


def test_the_first_call_of_some_batches_gets_the_others_at_the_speed_of_later_calls(tmp_path: Path) -> None:
    record = in_processes("agl", [0.1] * 5) | {"extrapolated": 10.0}  # first calls of 9 s
    factory.write(tmp_path, record)
    assert rows_by_label(tmp_path)["agl"].first_call_of_all() == pytest.approx(9.0 + 9 * 0.1)


def test_processes_are_the_unit_and_ratios_are_paired_by_pass(tmp_path: Path) -> None:
    drift = [1.0, 1.1, 1.2, 1.3, 1.4]
    factory.write(tmp_path / "results", in_processes("agl", drift))
    factory.write(tmp_path / "results", in_processes("dgl", [2 * value for value in drift]))
    table = rows_by_label(tmp_path / "results")
    time, ratio = table["agl"].time, table["agl"].ratio
    assert time is not None and (time.median, time.low, time.high, time.n) == (1.2, 1.0, 1.4, 5)
    assert formats.measured(time) == "1.2 [1, 1.4; 93.8 %]"
    assert ratio is not None and (ratio.low, ratio.median, ratio.high, ratio.n) == (0.5, 0.5, 0.5, 5)
    assert table["agl"].first_call == pytest.approx(2.4)
    assert table["agl"].first_call_of_all() == 9.0


def test_processes_that_do_not_tell_their_first_call_have_none(tmp_path: Path) -> None:
    untold = in_processes("agl", [0.2] * 2)
    del untold["processes"][0]["first_call"]
    factory.write(tmp_path / "results", untold)
    assert rows_by_label(tmp_path / "results")["agl"].first_call_of_all() == 9.0


def test_a_cell_that_was_measured_alone_has_no_ratio(tmp_path: Path) -> None:
    factory.write(tmp_path / "results", in_processes("agl", [0.2] * 5) | {"alone": True})
    factory.write(tmp_path / "results", in_processes("dgl", [0.4] * 5))
    row = rows_by_label(tmp_path / "results")["agl"]
    assert row.time is not None and row.ratio is None


def test_cells_that_were_measured_alone_one_after_the_other_have_no_ratio_to_each_other(tmp_path: Path) -> None:
    for backend, seconds in (("agl", 0.2), ("dgl", 0.4), ("pyg", 0.6)):
        alone = {"alone": True} if backend != "pyg" else {}
        factory.write(tmp_path / "results", in_processes(backend, [seconds] * 5) | alone)
    table = rows_by_label(tmp_path / "results")
    assert times_as_fast(table["agl"], table["dgl"]) is None
    assert [label for label, row in table.items() if row.ratio or row.fastest_peer] == ["pyg"]


def test_two_modes_and_load_stand_behind_the_figure(tmp_path: Path) -> None:
    factory.write(tmp_path / "results", in_processes("dgl", [0.23, 0.98, 0.231, 0.981, 0.982]))
    factory.write(tmp_path / "results", in_processes("agl", [0.2] * 5, load=1.5, tolerated_load=0.1, steal=0.3))
    table = rows_by_label(tmp_path / "results")
    assert formats.doubtful(table["dgl"]) == " ⚠ two modes"
    assert formats.doubtful(table["agl"]) == " ⚠ load, steal"


def test_a_row_with_fewer_processes_than_asked_says_so(tmp_path: Path) -> None:
    few, asked = in_processes("dgl", [0.4] * 2), {"warmup": 2, "min_samples": 5, "processes": 5}
    few["config"]["measure"] = asked | {"group_seconds": 60.0, "deadline_seconds": 3600.0}
    factory.write(tmp_path / "results", few)
    row = rows_by_label(tmp_path / "results")["dgl"]
    assert formats.doubtful(row) == " ⚠ shortened"
    assert "2 of 5 processes fitted the time; try measure.group_seconds above 60" in str(row.doubts[0])


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"oversubscribed": 1}, "2 threads shared 1 core: no speed; try threads=1 at most"),
        ({"oversubscribed": 1.5}, "2 threads shared 1.5 cores: no speed; try threads=1 at most"),
        ({"oversubscribed": 0.5}, "2 threads shared 0.5 cores: no speed; try a quota of at least one core"),
        (
            {"oversubscribed": 1, "workers": [{}] * 3},
            "3 workers shared 1 core: no speed; try backend.workers=1 at most",
        ),
        (
            {"oversubscribed": 2, "workers": [{}] * 3},
            "3 workers with threads=2: no speed; try backend.workers=2 at most",
        ),
    ],
    ids=["threads", "quota", "small-quota", "workers", "threads-of-workers"],
)
def test_what_crowds_the_cores_is_a_doubt(tmp_path: Path, facts: dict[str, Any], words: str) -> None:
    factory.write(tmp_path / "results", in_processes("agl", [0.1] * 5) | {"facts": facts})
    (doubt,) = rows_by_label(tmp_path / "results")["agl"].doubts
    assert str(doubt) == f"oversubscribed: {words}"


def test_more_ranks_than_cores_are_a_doubt_where_the_facts_do_not_tell_the_ranks(tmp_path: Path) -> None:
    facts = {"status": "not measured, timeout: late", "oversubscribed": 2}
    record = in_processes("blocksparse", [0.1] * 5) | {"facts": facts}
    record["config"]["backend"]["ranks"] = 4
    factory.write(tmp_path / "results", record)
    (doubt,) = rows_by_label(tmp_path / "results").popitem()[1].doubts
    assert str(doubt) == "oversubscribed: 4 ranks with threads=2: no speed; try backend.ranks=2 at most"


def test_workers_beyond_the_cores_of_the_machine_are_a_doubt_of_records_that_do_not_say_so(tmp_path: Path) -> None:
    for cores, folder in ((2, "few"), (4, "enough")):
        record = in_processes("agl", [0.1] * 5) | {"facts": {"workers": [{}] * 4}}
        checked = factory.ENVIRONMENT["checked"] | {"cores": cores}
        factory.write(tmp_path / folder, record, environment={"checked": checked})
    rows = [rows_by_label(tmp_path / folder)["agl"] for folder in ("few", "enough")]
    assert [row.oversubscribed for row in rows] == [True, False]
    assert "4 workers with threads=2: no speed" in str(rows[0].doubts[0])


@pytest.mark.parametrize(("busy", "doubted"), [(1.9, False), (2.5, True)])
def test_more_busy_cores_than_threads_are_a_doubt_but_of_workers(tmp_path: Path, busy: float, doubted: bool) -> None:
    names = {"loaders": ({}, 8), "workers": ({"workers": [{}] * 2}, 8), "all cores": ({}, 2)}
    for folder, (facts, cores) in names.items():
        record = in_processes("pyg", [0.1] * 5) | {"facts": facts}
        record["epochs"]["cpu_seconds"] = [busy * seconds for seconds in record["epochs"]["seconds"]]
        checked = factory.ENVIRONMENT["checked"] | {"cores": cores}
        factory.write(tmp_path / folder, record, environment={"checked": checked})
    doubts = {name: list(map(str, rows_by_label(tmp_path / name)["pyg"].doubts)) for name in names}
    words = "threads: 2.5 cores were busy with threads=2; try threads=3 for all, or fewer loaders"
    assert doubts == {"loaders": [words] if doubted else [], "workers": [], "all cores": []}


def test_a_score_without_the_gate_says_so(tmp_path: Path) -> None:
    config = factory.config("agl", measure={"parity": False, "max_samples": 1})
    factory.write(tmp_path, factory.record("agl", config=config))
    assert formats.doubtful(rows_by_label(tmp_path)["agl"]) == " ⚠ unchecked"


def test_seconds_of_more_ranks_than_cores_take_part_in_no_ratio(tmp_path: Path) -> None:
    crowded = {"ranks": {"edges": [1, 1, 1, 1]}, "oversubscribed": 2}
    factory.write(tmp_path / "results", in_processes("blocksparse", [0.1] * 5) | {"facts": crowded})
    factory.write(tmp_path / "results", in_processes("agl", [0.3] * 5))
    factory.write(tmp_path / "results", in_processes("dgl", [0.4] * 5))
    table = rows_by_label(tmp_path / "results")
    assert table["blocksparse"].ratio is None and times_as_fast(table["blocksparse"], table["dgl"]) is None
    assert table["agl"].ratio is not None and times_as_fast(table["agl"], table["dgl"]) is not None


def test_an_engine_for_tests_is_neither_ours_nor_a_peer_and_its_simulated_clock_forms_no_ratio(results: Path) -> None:
    factory.write(results, factory.record("dummy", 0, 0.0001, facts={"clock": "simulated"}))
    table = rows_by_label(results)
    row = table["dummy"]
    assert (row.ours, row.peer, row.ratio) == (False, False, None)
    assert fastest_of_ours(list(table.values())) is table["agl"]


def test_a_row_without_the_parity_gate_says_so(tmp_path: Path) -> None:
    for backend, parity in (("agl", False), ("dgl", True)):
        config = factory.config(backend, measure={"parity": parity})
        factory.write(tmp_path / "results", factory.record(backend, config=config))
    table = rows_by_label(tmp_path / "results")
    assert [formats.doubtful(table[name]) for name in ("agl", "dgl")] == [" ⚠ unchecked", ""]
    assert str(table["agl"].doubts[0]) == "unchecked: the parity gate was left out; try measure.parity=true"


def sweep(results: Path, month: int, environment: dict[str, Any] | None = None, **seconds: float) -> None:
    """The records of one sweep over engines, a month after the one before."""
    for backend, each in seconds.items():
        record = factory.record(backend, 0, each, group=f"sweep{month}", written=f"2026-{month:02d}-01T00:00:00Z")
        factory.write(results, record, environment=environment)


def test_a_later_sweep_of_fewer_engines_keeps_their_ratios_to_the_others(tmp_path: Path) -> None:
    for month, engines in enumerate((("agl", "dgl", "pyg"), ("agl", "dgl"), ("agl",)), start=1):
        sweep(tmp_path, month, **{name: {"agl": 0.01, "dgl": 0.03, "pyg": 0.02}[name] for name in engines})
        row = rows_by_label(tmp_path)["agl"]
        assert row.ratio is not None and (row.ratio_to, row.ratio.n) == ("pyg", 1)
        assert row.ratio.median == pytest.approx(0.5, rel=0.05)
        assert list(row.samples()) == [f"sweep{month}  0"]


def test_no_ratio_is_of_an_earlier_environment(tmp_path: Path) -> None:
    old = {"checked": factory.ENVIRONMENT["checked"] | {"sources": "older"}}
    sweep(tmp_path, 1, old, agl=0.01, pyg=0.02)
    sweep(tmp_path, 2, agl=0.01, dgl=0.03)
    assert rows_by_label(tmp_path)["agl"].ratio_to == "dgl"


def test_no_ratio_is_of_an_earlier_doubtful_figure(tmp_path: Path) -> None:
    loaded = in_processes("agl", [0.2] * 5, load=1.5, tolerated_load=0.1) | {"group": "first"}
    factory.write(tmp_path, loaded)
    factory.write(tmp_path, in_processes("pyg", [0.3] * 5) | {"group": "first"})
    sweep(tmp_path, 2, agl=0.2, dgl=0.4)
    assert rows_by_label(tmp_path)["agl"].ratio_to == "dgl"


def test_of_two_runs_of_a_group_the_newer_counts_and_the_earlier_is_not_averaged(tmp_path: Path) -> None:
    first = factory.record("agl", 0, 0.5, run="1" * 12)
    second = factory.record("agl", 0, 0.01, run="2" * 12, written="2026-02-01T12:00:00Z")
    set_aside(factory.write(tmp_path, first), second["run"])
    factory.write(tmp_path, second)
    row = rows_by_label(tmp_path)["agl"]
    assert [record["run"] for record in row.ok] == [second["run"]]
    assert row.older == 1 and [record["run"] for record in row.earlier] == [first["run"]]
    assert row.time is not None and row.time.median == pytest.approx(0.01, rel=0.05)


OTHER = {"python": "3.12.1"}, {"packages": {"dgl": "2.4"}}, {"batches_by": "another sampler"}


@pytest.mark.parametrize("change", [{}, *OTHER], ids=str)
def test_interpreters_that_make_no_difference_are_one_row(tmp_path: Path, change: dict[str, Any]) -> None:
    under_two_interpreters(tmp_path, change)
    table = rows_by_label(tmp_path)
    assert len(table) == (2 if change else 1)
    assert max(row.time.median for row in table.values() if row.time) == pytest.approx(0.2, rel=0.05)


def test_an_interpreter_that_lacks_a_package_does_not_hide_what_another_one_measured(tmp_path: Path) -> None:
    under_two_interpreters(tmp_path, {}, status="unsupported")
    (row,) = rows_by_label(tmp_path).values()
    assert row.time is not None and row.time.median == pytest.approx(0.1, rel=0.05)


def under_two_interpreters(results: Path, change: dict[str, Any], status: str = "ok") -> None:
    """One cell in .1 s, then under another interpreter in .2 s, or with another status."""
    same = {"python": "3.11.7", "packages": {"dgl": "1.1.3"}, "batches_by": "its own sampler"}
    for month, python in enumerate((None, "other/bin/python"), start=1):
        values = same | (change if python else {})
        checked = factory.ENVIRONMENT["checked"] | {key: values[key] for key in ("python", "packages")}
        cell = factory.config("dgl", launcher={"python": python})
        outcome = status if python else "ok"
        record = factory.record("dgl", 0, 0.1 * month, outcome, config=cell, written=f"2026-0{month}-01T00:00:00Z")
        if outcome == "ok":
            record["facts"] = record.get("facts", {}) | {"batches_by": values["batches_by"]}
        factory.write(results, record | {"group": f"group{month}"}, environment={"checked": checked})


def test_memory_of_an_old_record_is_compared_by_what_both_have(tmp_path: Path) -> None:
    factory.write(tmp_path, factory.record("agl"))
    old = factory.record("dgl")
    del old["memory"]["working_set"]
    old["memory"]["peak_minus_resident"] = 55e6
    factory.write(tmp_path, old)
    rows = rows_by_label(tmp_path)
    assert (rows["agl"].working_set(), rows["dgl"].working_set()) == (120e6, 55e6)
    assert rows["agl"].memory_beside(rows["dgl"]) == 2.0
    assert rows["agl"].memory_beside(rows["agl"]) == 1.0


def test_a_superseded_record_is_the_older_one_whatever_the_clock_said(tmp_path: Path) -> None:
    first, second = "1" * 12, "2" * 12
    path = factory.write(tmp_path, factory.record("agl") | {"run": first, "written": "2026-03-01T12:00:00Z"})
    set_aside(path, second)
    factory.write(tmp_path, factory.record("agl") | {"run": second, "written": "2026-02-01T12:00:00Z"})
    row = rows_by_label(tmp_path)["agl"]
    assert (row.record["run"], row.older) == (second, 1)
