"""Reports: the same bytes for the same records, nothing that was not measured, ratios inside groups only."""

import re
import shlex
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from backends.ablation import resolve
from harness.planning.compose import compose_arguments
from harness.planning.config import load
from harness.planning.identity import execution_config
from harness.report import commandline, tables
from harness.report.pages import write_reports
from harness.report.published import published_for, published_scores
from harness.report.rows import Row, rows
from harness.store.files import environment_of, find_records
from harness.store.record import RecordError
from harness.usage import UsageError
from tests import factory

ENGINES = {"agl": 0.01, "dgl": 0.02, "pyg": 0.03}


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Three engines on three seeds, one of them also without a result."""
    folder = tmp_path / "results"
    for seed in range(3):
        for backend, seconds in ENGINES.items():
            factory.write(folder, factory.record(backend, seed, seconds))
        broken = factory.config("pyg", seed, backend={"variant": "compile"})
        factory.write(folder, factory.record("pyg", seed, status="oom", config=broken))
    return folder


def made(results: Path) -> dict[str, Row]:
    """Rows of all records as one table, by label."""
    found = list(find_records(results))
    environments = {record["environment"]: environment_of(results, record["environment"]) for _, record in found}
    return {row.label: row for row in rows(found, environments)}


def line_of(page: str, label: str) -> list[str]:
    """Cells of the first table line of an engine in the main table."""
    line = next(line for line in page.splitlines() if line.startswith(f"| {label} ") and ("ms" not in line))
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def main_table(page: str) -> str:
    """The first table with times."""
    return page[page.index("| engine | epoch time") :]


def test_twice_the_same_bytes_wherever_the_folder_lies(results: Path, tmp_path: Path) -> None:
    first = {path.name: path.read_bytes() for path in write_reports(results, tmp_path / "reports")}
    again = {path.name: path.read_bytes() for path in write_reports(results, tmp_path / "reports")}
    shutil.copytree(results, tmp_path / "elsewhere" / "results")
    moved = write_reports(tmp_path / "elsewhere" / "results", tmp_path / "elsewhere" / "reports")
    assert first == again == {path.name: path.read_bytes() for path in moved}
    assert {"README.md", "comparison.md"} < set(first)
    assert any(name.endswith(".svg") for name in first)
    assert b"o not edit" in first["comparison.md"]


def test_a_failed_row_shows_its_status_and_never_a_number(results: Path, tmp_path: Path) -> None:
    write_reports(results, tmp_path / "reports")
    page = (tmp_path / "reports" / "comparison.md").read_text()
    cells = line_of(main_table(page), "pyg compile")
    assert cells[1].startswith("✗ oom: it ended as oom \\| on purpose")
    assert cells[2] == "0 of 3"
    assert set(cells[3:]) == {tables.NOTHING}
    assert all(cell not in ("0", "0.0", "nan", "0.000") for cell in cells)
    assert "oom" in next((tmp_path / "reports" / "figures").iterdir()).read_text()


def test_a_row_shows_what_its_records_hold(results: Path, tmp_path: Path) -> None:
    write_reports(results, tmp_path / "reports")
    cells = line_of(main_table((tmp_path / "reports" / "comparison.md").read_text()), "agl")
    time, n, ratio, limit, reuse, hit_rate, score, published, until, memory = cells[1:]
    assert (limit, reuse) == (tables.NOTHING, tables.NOTHING)
    low, high = map(float, re.findall(r"\[([\d.]+), ([\d.]+)\]", time)[0])
    assert low <= float(time.split()[0]) <= high
    assert 9.8 <= low <= high <= 10.2
    assert n == "3"
    assert float(ratio.split()[0]) == pytest.approx(0.5, rel=0.03)
    assert hit_rate == "87.0%"
    assert re.fullmatch(r"0\.8\d\d ± 0\.0\d\d", score)
    assert published.startswith("0.830 (")
    assert float(until.split()[0]) == pytest.approx(50 * 0.01, rel=0.03)
    assert memory == "114 MiB + 286 MiB"


def test_time_to_accuracy_has_a_column_only_where_a_target_was_reached(tmp_path: Path) -> None:
    reached, missed = factory.record("dgl"), factory.record("agl")
    for folder, given in (("both", [reached, missed]), ("none", [missed])):
        missed["metrics"]["epochs_to_target"] = None
        for values in given:
            factory.write(tmp_path / folder, values)
        write_reports(tmp_path / folder, tmp_path / "reports" / folder)
    page, bare = ((tmp_path / "reports" / folder / "comparison.md").read_text() for folder in ("both", "none"))
    assert line_of(main_table(page), "agl")[9] == tables.NOTHING and line_of(main_table(page), "dgl")[9].endswith(" s")
    assert "time to accuracy" not in main_table(bare) and len(line_of(main_table(bare), "agl")) == 10


def test_limits_and_structure_are_shown_where_they_are_known(tmp_path: Path) -> None:
    values = factory.record("agl") | {"limits": {"fraction_of_limit": 0.42, "xnr": 1.75}}
    degrees = {"median": 3.0, "mean": 3.9, "max": 168.0, "top_1_percent": 0.12}
    structure = {"density": 0.00144, "tiles": {"<1": 0.9, ">10": 0.1}, "degrees": degrees}
    factory.write(tmp_path / "results", values | {"dataset": values["dataset"] | {"structure": structure}})
    write_reports(tmp_path / "results", tmp_path / "reports")
    page = (tmp_path / "reports" / "comparison.md").read_text()
    assert line_of(main_table(page), "agl")[4:6] == ["42%", "1.75"]
    assert "Density 1.44e-03; in-degree median 3, mean 3.9, largest 168" in page


def test_the_fastest_peer_is_starred_and_is_no_engine_of_ours(results: Path) -> None:
    held = made(results)
    assert [label for label, row in held.items() if row.fastest_peer] == ["dgl"]
    assert held["agl"].ratio_to == held["pyg"].ratio_to == "dgl"
    assert held["dgl"].ratio is not None
    assert held["dgl"].ratio.median == 1
    assert list(held) == ["agl", "dgl", "pyg", "pyg compile"]


def test_variants_and_allocators_of_a_peer_compete(results: Path) -> None:
    for seed in range(3):
        stock = factory.config("dgl", seed, launcher={"allocator": "stock"})
        factory.write(results, factory.record("dgl", seed, 0.2, config=stock), folder="stock")
        csr = factory.config("pyg", seed, backend={"variant": "csr"})
        factory.write(results, factory.record("pyg", seed, 0.015, config=csr))
    held = made(results)
    assert held["agl"].ratio_to == "pyg csr"
    assert held["dgl stock"].ratio is not None
    assert held["dgl stock"].ratio.median > 10


def test_no_ratio_leaves_its_group(results: Path) -> None:
    alone = factory.config("agl", 0, order={"name": "rcm"})
    factory.write(results, factory.record("agl", 0, 0.005, config=alone, group="another"), folder="rcm")
    row = made(results)["agl order=rcm"]
    assert row.time is not None
    assert row.ratio is None
    assert tables.ratio(row) == tables.NOTHING


def test_lower_precision_is_labelled(results: Path) -> None:
    half = factory.config("agl", 0, training={"dtype": "bf16"})
    factory.write(results, factory.record("agl", 0, 0.004, config=half), folder="bf16")
    assert "lower precision" in tables.ratio(made(results)["agl bf16"])
    assert "lower precision" not in tables.ratio(made(results)["agl"])


def test_records_of_an_older_environment_are_counted_and_not_pooled(results: Path) -> None:
    old = {"checked": factory.ENVIRONMENT["checked"] | {"torch": "2.0.0"}}
    values = factory.record("agl", 5, 99.0, written="2025-01-01T00:00:00Z")
    factory.write(results, values, environment=old)
    row = made(results)["agl"]
    assert row.older == 1
    assert [record["config"]["seed"] for _, record in row.cells] == [0, 1, 2]


def test_a_cell_measured_again_counts_once(results: Path) -> None:
    factory.write(results, factory.record("agl", 1, 0.5, group="again", written="2026-02-01T00:00:00Z"))
    row = made(results)["agl"]
    assert len(row.ok) == 3
    assert row.older == 1
    assert row.samples()["again"][0] == pytest.approx(0.5, rel=0.03)


def test_one_process_gives_a_spread_and_no_interval(tmp_path: Path) -> None:
    factory.write(tmp_path / "results", factory.record("agl", 0, 0.01))
    row = made(tmp_path / "results")["agl"]
    assert row.time is not None
    assert row.time.kind == "spread"
    assert re.fullmatch(r"[\d.]+ \([\d.]+ … [\d.]+\)", tables.measured(row.time, 1e3))


def test_extrapolated_epochs_are_scaled_and_marked(tmp_path: Path) -> None:
    values = factory.record("agl", 0, 0.01, extrapolated=12.5)
    factory.write(tmp_path / "results", values)
    row = made(tmp_path / "results")["agl"]
    assert row.time is not None
    assert row.time.median == pytest.approx(0.125, rel=0.03)
    assert sum(row.phases().values()) == pytest.approx(row.time.median, rel=0.03)
    write_reports(tmp_path / "results", tmp_path / "reports")
    page = (tmp_path / "reports" / "comparison.md").read_text()
    assert "extrapolated from 1/12.5 of its batches" in page
    assert "≈" in line_of(main_table(page), "agl")[1]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"synthetic": True}, "`synthetic`: a generated graph"),
        ({"trust": "first use"}, "trusted on first use"),
        ({"notes": ["15 isolated test nodes"]}, "- 15 isolated test nodes"),
        ({"counts": {"nodes": 1234567}}, "1,234,567"),
    ],
)
def test_what_is_known_of_the_data_is_said(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    for results, extra in (("with", change), ("without", {})):
        values = factory.record("agl")
        values["dataset"] |= extra
        factory.write(tmp_path / results, values)
        write_reports(tmp_path / results, tmp_path / f"{results} reports")
        page = (tmp_path / f"{results} reports" / "comparison.md").read_text()
        assert (said in page) == (results == "with")


def test_recovered_data_stand_beside_no_published_score(tmp_path: Path) -> None:
    values = factory.record("agl", config=factory.config("agl", dataset={"name": "ppi_recovered"}))
    factory.write(tmp_path / "results", values)
    write_reports(tmp_path / "results", tmp_path / "reports")
    page = (tmp_path / "reports" / "comparison.md").read_text()
    assert "never with published PPI scores" in page
    assert line_of(main_table(page), "agl")[8] == tables.NOTHING


def test_every_record_that_counts_is_linked(results: Path, tmp_path: Path) -> None:
    write_reports(results, tmp_path / "reports")
    page = tmp_path / "reports" / "comparison.md"
    linked = {(page.parent / link).resolve() for link in re.findall(r"\]\((\S+seed=\S+?\.json)\)", page.read_text())}
    assert linked == {path.resolve() for path, _ in find_records(results)}


def test_stale_figures_go_and_other_files_stay(results: Path, tmp_path: Path) -> None:
    out = tmp_path / "reports"
    figure = next(path for path in write_reports(results, out) if path.suffix == ".svg")
    stale = figure.with_name("gone.svg")
    stale.write_bytes(figure.read_bytes())
    (out / "mine.md").write_text("my own words")
    write_reports(results, out)
    assert not stale.exists()
    assert (out / "mine.md").read_text() == "my own words"


def test_no_records_is_said(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="holds no records"):
        write_reports(tmp_path, tmp_path / "reports")


COMMANDS = [
    ["backend=agl", "dataset=cora", "model=gat"],
    ["backend=agl", "dataset=cora", "model=gat", "+ablation=pruning", "training.dropout=0.0", "threads=1"],
    ["backend=agl", "dataset=uug", "model=gcn", "+ablation=[pruning,partition]", "measure=short"],
    ["backend=agl", "dataset=uug", "model=sage", "backend.pruning=false", "dataset.options.nodes=5000"],
    ["backend=reference", "dataset=cora", "model=gcn", "scenario=infer", "launcher.allocator=stock"],
]


@pytest.mark.parametrize("given", COMMANDS, ids=" ".join)
def test_the_printed_command_leads_back_to_the_same_cell(given: list[str]) -> None:
    config, names = _resolved([*given, "seed=3"])
    record: Any = {"config": asdict(config), "ablations": names}
    asked = commandline.overrides(record)
    rest = [text for text in asked if not text.startswith("backend=")]
    words = shlex.split(commandline.command([config.backend.name], rest, [3]))
    assert words[:3] == ["python", "-m", "harness"]
    again, same = _resolved(words[3:])
    assert execution_config(again) == execution_config(config)
    assert (same, again.seed) == (names, 3)
    assert len(asked) <= len(given) + 2


def _resolved(arguments: list[str]) -> Any:
    config = load(compose_arguments(arguments)[0].values)
    names = sorted(name for name, on in config.ablations.items() if on)
    config.backend = resolve(config.backend, names)
    return config, names


def test_one_command_for_rows_that_differ_in_the_backend_only(results: Path, tmp_path: Path) -> None:
    write_reports(results, tmp_path / "reports")
    page = (tmp_path / "reports" / "comparison.md").read_text()
    commands = [line for line in page.splitlines() if line.startswith("python -m harness -m")]
    assert any(line.endswith("seed=0,1,2") and "backend=agl,dgl,pyg " in line for line in commands)


def test_a_choice_that_is_gone_leaves_every_key_said() -> None:
    record: Any = {"config": factory.config("agl", dataset={"name": "gone"}), "ablations": []}
    asked = commandline.overrides(record)
    assert "dataset=gone" in asked
    assert "++model.hidden=8" in asked
    with pytest.raises(UsageError):
        compose_arguments(["dataset=gone"])


def test_published_numbers_come_from_the_suites() -> None:
    held = {(item.dataset, item.model): item.value for item in published_scores()}
    assert held[("cora", "gcn")] == 0.815
    assert held[("citeseer", "gat")] == 0.725
    assert all("20" in item.source for item in published_scores())


def test_a_faster_peer_of_another_group_is_no_measure(results: Path) -> None:
    csr = factory.config("pyg", 0, backend={"variant": "csr"})
    factory.write(results, factory.record("pyg", 0, 0.001, config=csr, group="another"))
    assert made(results)["agl"].ratio_to == "dgl"


def test_what_was_not_measured_is_a_dash_and_no_zero(tmp_path: Path) -> None:
    values = factory.record("agl")
    for key in ("cache", "metrics", "memory"):
        del values[key]
    factory.write(tmp_path / "results", values)
    write_reports(tmp_path / "results", tmp_path / "reports")
    cells = line_of(main_table((tmp_path / "reports" / "comparison.md").read_text()), "agl")
    assert set(cells[3:]) == {tables.NOTHING}


def test_another_metric_stands_beside_no_published_score() -> None:
    record: Any = factory.record("agl")
    assert published_for(record, published_scores()) is not None
    record["metrics"]["name"] = "micro_f1"
    assert published_for(record, published_scores()) is None
