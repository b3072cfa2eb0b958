"""History: a point per commit or date, protocols and machines apart, every superseded record linked."""

from pathlib import Path
from typing import Any

import pytest

from harness.commands.validate import unsupported_claims
from harness.launcher.earlier import set_aside
from harness.report import figures
from harness.report.history import Headline, headlines
from harness.report.repeats import repeats
from harness.report.write import write_reports
from harness.store.files import environment_of, find_records, write_record
from tests import factory


def measure(results: Path, factor: float, day: int, *, commit: str = "", protocol: int = 3, **keys: Any) -> None:
    """Write ours and a peer that takes ``factor`` times as long, on a day of January."""
    environment = {"checked": {"day": day}} | ({"commit": {"revision": commit, "dirty": False}} if commit else {})
    written = f"2026-01-{day:02d}T12:00:00Z"
    for backend, seconds in (("agl", 0.01), ("dgl", 0.01 * factor)):
        record = factory.record(backend, 0, seconds, written=written, protocol=protocol, group=f"g{day}")
        factory.write(results, record, environment=environment, **keys)


def history(results: Path) -> list[Headline]:
    records = list(find_records(results))
    environments = {record["environment"]: environment_of(results, record["environment"]) for _, record in records}
    return headlines(results, records, environments)


def test_a_headline_has_a_point_per_commit_or_else_per_day(tmp_path: Path) -> None:
    measure(tmp_path, 2, day=1)
    measure(tmp_path, 3, day=2, commit="a" * 40)
    measure(tmp_path, 4, day=3, commit="b" * 40)
    (headline,) = history(tmp_path)
    assert [point.commit for point in headline.points] == ["", "a" * 9, "b" * 9]
    assert [point.date for point in headline.points] == ["2026-01-01", "2026-01-02", "2026-01-03"]
    assert [point.factor.median for point in headline.points] == pytest.approx([2, 3, 4], rel=0.05)
    assert all(point.factor.low <= point.factor.median <= point.factor.high for point in headline.points)


def test_settings_that_end_a_training_part_no_history(tmp_path: Path) -> None:
    for day, epochs in ((1, 7), (2, 9)):
        for backend, seconds in (("agl", 0.01), ("dgl", 0.02)):
            values = factory.config(backend, training={"epochs": epochs})
            record = factory.record(backend, 0, seconds, config=values, written=f"2026-01-0{day}T12:00:00Z")
            factory.write(tmp_path, record, folder=f"{backend}{day}")
    assert [len(one.points) for one in history(tmp_path)] == [2]


def test_no_line_joins_two_protocols_or_machines(tmp_path: Path) -> None:
    for day, (protocol, machine) in enumerate([(2, "one"), (2, "one"), (3, "one"), (3, "two")], start=1):
        measure(tmp_path, day, day=day, protocol=protocol, machine=machine)
    (headline,) = history(tmp_path)
    (axes,) = figures.draw_history(headline).axes
    lines = [line for line in axes.lines if not str(line.get_label()).startswith("_")]
    assert [list(map(float, line.get_xdata())) for line in lines] == [[0, 1], [2], [3]]  # type: ignore[arg-type]


def test_settings_that_an_old_record_lacks_have_their_defaults(tmp_path: Path) -> None:
    for day, training in ((1, {}), (2, {"decay": 0.0}), (3, {"decay": 0.5})):
        for backend, seconds in (("agl", 0.01), ("dgl", 0.02)):
            values = factory.config(backend, training=training)
            record = factory.record(backend, 0, seconds, config=values, written=f"2026-01-0{day}T12:00:00Z")
            factory.write(tmp_path, record, folder=f"{backend}{day}")
    assert [(len(one.points), "decay=" in one.title) for one in history(tmp_path)] == [(2, True), (1, True)]


@pytest.mark.parametrize("limit", ["group_seconds", "deadline_seconds"])
def test_a_limit_that_is_raised_for_one_engine_parts_no_point(tmp_path: Path, limit: str) -> None:
    for backend, allowed in (("agl", 60.0), ("dgl", 600.0)):
        factory.write(tmp_path, factory.record(backend, config=factory.config(backend, measure={limit: allowed})))
    (headline,) = history(tmp_path)
    assert len(headline.points) == 1


def test_the_page_links_superseded_records_and_draws_only_what_has_several_points(tmp_path: Path) -> None:
    results, out = tmp_path / "results", tmp_path / "reports"
    measure(results, 2, day=1)
    write_reports(results, out)
    assert not list((out / "figures").glob("history-*"))
    assert "Superseded records" not in (out / "history.md").read_text()
    measure(results, 3, day=2)
    write_reports(results, out)
    text = (out / "history.md").read_text()
    assert "figures/history-cora-0.svg" in text and "[cora](superseded-cora.md): 2 records" in text
    old = [path.name for path, record in find_records(results) if record["written"].startswith("2026-01-01")]
    assert len(old) == 2 and all(name in (out / "superseded-cora.md").read_text() for name in old)


def test_the_page_links_the_record_of_an_earlier_run_of_a_group(tmp_path: Path) -> None:
    results, out = tmp_path / "results", tmp_path / "reports"
    runs = ["1" * 12, "2" * 12]
    for day, run in enumerate(runs, start=1):
        record = factory.record("agl", 0, 0.01, run=run, written=f"2026-01-0{day}T12:00:00Z")
        set_aside(factory.write(results, record), runs[-1])
    write_reports(results, out)
    (earlier,) = [path.name for path, record in find_records(results) if record["run"] == runs[0]]
    assert f".{runs[0]}.json" in earlier and earlier in (out / "superseded-cora.md").read_text()
    assert not list(unsupported_claims(results, out))


def measured_again(results: Path, runs: list[tuple[tuple[str, ...], float, bool]], changed_on: int = 0) -> None:
    """A run a day of one commit: ours and some peers, which take ``factor`` times as long; the code may change once."""
    for day, (peers, factor, fresh) in enumerate(runs, start=1):
        for backend in ("agl", *peers):
            seconds = 0.01 if backend == "agl" else 0.01 * factor
            written = f"2026-01-{day:02d}T12:00:00Z"
            record = factory.record(backend, 0, seconds, written=written, group=f"g{day}", run=f"run{day}")
            if fresh:
                record = factory.in_fresh_processes(record)
            checked = {"sources": "new" if changed_on and day >= changed_on else "old"}
            factory.write(
                results, record, environment={"checked": checked, "commit": {"revision": "a" * 40, "dirty": False}}
            )


def test_each_run_is_compared_with_the_one_before(tmp_path: Path) -> None:
    results, out = tmp_path / "results", tmp_path / "reports"
    measured_again(results, [(("dgl",), factor, True) for factor in (2, 2.01, 3)])
    write_reports(results, out)
    page = (out / "history.md").read_text()
    moved = page.partition("1 pair not agreeing")[2].partition("1 pair agreeing")[0]
    assert "| the same | 2 | 1 | 50% |" in page
    assert "2026-01-02 12:00 aaaaaaaaa" in moved and "2026-01-03" in moved and "2026-01-01" not in moved


def test_runs_of_the_same_code_are_counted_apart(tmp_path: Path) -> None:
    results, out = tmp_path / "results", tmp_path / "reports"
    measured_again(results, [(("dgl",), factor, True) for factor in (2, 2.01, 3)], changed_on=3)
    write_reports(results, out)
    page = (out / "history.md").read_text()
    assert "| the same | 1 | 1 | 100% |" in page and "| changed | 1 | 0 | 0% |" in page


def test_runs_of_other_engines_and_of_few_processes_are_no_pair(tmp_path: Path) -> None:
    measured_again(tmp_path, [(("dgl",), 3, True), (("dgl", "pyg"), 3, True), (("dgl", "pyg"), 3, False)])
    points = by_run(tmp_path)
    assert len(points[0].points) == 3 and not repeats(points)


def test_a_doubtful_run_is_passed_over(tmp_path: Path) -> None:
    measured_again(tmp_path, [(("dgl",), 3, True)] * 3)
    for path, record in find_records(tmp_path):
        if record["run"] == "run2":
            record["config"]["measure"] = {"parity": False}
            write_record(tmp_path, path.relative_to(tmp_path), record)
    (pair,) = repeats(by_run(tmp_path))
    assert (pair.before.date, pair.after.date) == ("2026-01-01", "2026-01-03") and pair.agrees


def by_run(results: Path) -> list[Headline]:
    return headlines(results, list(find_records(results)), {}, lambda record, _: str(record["run"]))


def test_a_peer_that_takes_the_lead_changes_no_code(tmp_path: Path) -> None:
    results, out = tmp_path / "results", tmp_path / "reports"
    for day, (dgl, pyg) in enumerate(((2.0, 2.01), (2.01, 2.0)), start=1):
        for backend, factor in (("agl", 1.0), ("dgl", dgl), ("pyg", pyg)):
            written, named = f"2026-01-{day:02d}T12:00:00Z", {"group": f"g{day}", "run": f"run{day}"}
            record = factory.in_fresh_processes(factory.record(backend, 0, 0.01, written=written, **named))
            if backend != "agl":
                record["epochs"]["seconds"] = [factor * 0.01] * 6
            checked = {"sources": backend}
            factory.write(
                results, record, environment={"checked": checked, "commit": {"revision": "a" * 40, "dirty": False}}
            )
    write_reports(results, out)
    assert "| the same | 1 | 1 | 100% |" in (out / "history.md").read_text()
