"""Pages of ``reports/``: a pure function of the records and of this checkout, twice the same bytes."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from harness.report import epochs, figures, kernels, tables, versus
from harness.report.describing import counts, dataset, notes, redo, rows_of, settings, structure, trust
from harness.report.parts import Comparison, DatasetPart, chosen, dataset_parts
from harness.report.rows import Found
from harness.report.suites import blocks
from harness.report.suites.part import SuitePart, name_of, suite_parts
from harness.store.files import environment_of, find_records
from harness.store.naming import flatten
from harness.store.record import RecordError

TEMPLATES = Path(__file__).parent / "templates"
MARK = "gnn-harness report"


def write_reports(results: Path, out: Path, on_page: Callable[[str], None] = lambda name: None) -> list[Path]:
    """Write all pages and figures below ``out`` and return them; raises RecordError when there is no record.

    Nothing is written before all of them are made; ``on_page`` hears the name of each that is. Files of an earlier
    report that are no longer made are deleted; what carries no mark of a report is left alone.
    """
    found = list(find_records(results))
    if not found:
        raise RecordError(f"{results} holds no records: run `python -m harness` first, or name another folder")
    names = sorted({record["environment"] for _, record in found})
    environments = {name: environment_of(results, name) for name in names}
    texts = {}
    for name, text in _made(results, found, environments, out):
        on_page(name)
        texts[name] = text
    return _write(out, texts)


def _made(
    results: Path, found: list[Found], environments: Mapping[str, dict[str, Any]], out: Path
) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of every figure and page."""
    parts = dataset_parts(results, found, environments)
    trained = chosen(parts, lambda scenario: scenario != "spmm")
    multiplied = chosen(parts, lambda scenario: scenario == "spmm", "-kernels")
    full = epochs.full_batches(trained)
    for part in trained:
        yield f"figures/{part.figure}", figures.epoch_times(part.comparisons)
    for part in multiplied:
        yield f"figures/{part.figure}", figures.epoch_times(_typical(part))
    yield "comparison.md", _page("comparison.md.j2", trained, environments, out)
    if multiplied:
        yield "figures/speedups.svg", figures.speedups(kernels.cells(multiplied))
        far = kernels.far(multiplied)
        page = _page("kernels.md.j2", multiplied, environments, out, figure="speedups.svg", far=far)
        yield "kernels.md", page
    if full:
        yield "epochs.md", _render("epochs.md.j2", parts=full)
    suites = suite_parts(results, found, environments)
    for held in suites:
        yield f"{held.suite.name}.md", _suite_page(held, environments, out)
        yield from blocks.pictures(held).items()
    counted = {"records": len(found), "statuses": _statuses(found)}
    lists = {"multiplied": multiplied, "full": full, "suites": suites}
    yield "README.md", _render("README.md.j2", parts=trained, **lists, **counted)


def _typical(part: DatasetPart) -> list[Comparison]:
    """Tables of a figure: 64 wide, one head, native order; the first where there is none."""
    typical = [held for held in part.comparisons if ", 64 wide, " in held.title and " order, " not in held.title]
    return [held for held in typical if not _many_heads(held)] or part.comparisons[:1]


def _many_heads(comparison: Comparison) -> bool:
    model = comparison.rows[0].record["config"]["model"]
    return bool(model["name"] == "gat" and model["heads"] != 1)


def _suite_page(held: SuitePart, environments: Mapping[str, dict[str, Any]], out: Path) -> str:
    values = {"claims": blocks.claims(held), "sections": blocks.sections(held), "name_of": name_of}
    records = sum(len(row.cells) for _, comparison in held.comparisons() for row in comparison.rows)
    return _page("suite.md.j2", held.parts, environments, out, held=held, records=records, **values)


def _without_modules(environment: Mapping[str, Any]) -> dict[str, Any]:
    """An environment as the pages show it; the digests of its many modules stay in its file."""
    return flatten({key: value for key, value in environment.items() if key != "modules"})


def _page(
    template: str, parts: list[DatasetPart], environments: Mapping[str, dict[str, Any]], out: Path, **values: Any
) -> str:
    cited = {record["environment"] for part in parts for row in rows_of(part) for _, record in row.cells}

    def link(path: Path) -> str:
        return Path(os.path.relpath(path, out)).as_posix()

    return _render(
        template,
        parts=parts,
        environments={name: _without_modules(environments[name]) for name in sorted(cited)},
        known={row.record["config"]["dataset"]["name"] for part in parts for row in rows_of(part)},
        synthetic=any(dataset(part).get("synthetic") for part in parts),
        link=link,
        **values,
    )


def _render(template: str, **values: Any) -> str:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    engine = Environment(
        loader=FileSystemLoader(TEMPLATES),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    helpers = (settings, counts, structure, dataset, trust, redo, notes)
    engine.globals |= {function.__name__: function for function in helpers} | {
        "tables": tables,
        "kernels": kernels,
        "epochs": epochs,
        "versus": versus,
    }
    return engine.get_template(template).render(**values)


def _statuses(found: Iterable[Found]) -> dict[str, int]:
    counted: dict[str, int] = {}
    for _, record in found:
        counted[record["status"]] = counted.get(record["status"], 0) + 1
    return dict(sorted(counted.items()))


def _write(out: Path, texts: Mapping[str, str]) -> list[Path]:
    written = []
    for name, text in texts.items():
        path = out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        written.append(path)
    for path in sorted({*out.glob("*.md"), *(out / "figures").glob("*.svg")} - set(written)):
        if MARK in path.read_text(encoding="utf-8")[:1000]:
            path.unlink()
    return written
