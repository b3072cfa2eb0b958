"""Writing of ``reports/``: the same records and checkout give the same bytes."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from datasets.files import write_atomic
from harness.report import figures
from harness.report.content import Figure, Page, linked_records, walk
from harness.report.history import headlines
from harness.report.pages.comparison import comparison_pages, other_protocol_pages
from harness.report.pages.epochs import epochs_page
from harness.report.pages.front import front_page
from harness.report.pages.history import history_page, superseded_pages
from harness.report.pages.kernels import kernels_pages
from harness.report.render import markdown
from harness.report.repeats import repeats
from harness.report.reported import Reported
from harness.report.suites.page import suite_page
from harness.store.files import environment_of, rooted_records
from harness.store.left_out import LeftOut
from harness.store.record import RecordError, StoredRecord

MARK = "gnn-harness report"


def write_reports(
    results: Path,
    out: Path,
    on_page: Callable[[str], None] = lambda name: None,
    left_out: LeftOut | None = None,
) -> list[Path]:
    """Write all pages and figures below ``out`` and return them; raises RecordError when there is no record.

    Nothing is written before all of them are built; ``on_page`` is called with the name of each that is. Files of an
    earlier report that are no longer built are deleted; files without the mark of a report are left alone, and raise
    RecordError where a page would have their name. Damaged records are added to ``left_out``.
    """
    root, records = rooted_records(results, left_out)
    if not records:
        raise RecordError(f"{results} holds no records: run `python -m harness` first, or name another folder")
    texts = {}
    for name, text in _texts(pages(root, records), out):
        on_page(name)
        texts[name] = text
    return _write(out, texts)


def pages(results: Path, records: list[StoredRecord]) -> Iterator[Page]:
    """Yield every page that the records fill, as data."""
    names = sorted({record["environment"] for _, record in records})
    environments = {name: environment_of(results, name) for name in names}
    reported = Reported.of(results, records, environments)
    linked: set[Path] = set()
    for page in table_pages(reported, environments):
        linked.update(linked_records(page.content))
        yield page
    of_runs = [(path, record) for path, record in records if "run" in record]
    by_run = headlines(results, of_runs, environments, lambda record, _: record["run"])
    superseded = [path for path, _ in records if path not in linked]
    yield history_page(headlines(results, records, environments), repeats(by_run), superseded)
    yield from superseded_pages(superseded)
    yield front_page(_statuses(records), reported)


def table_pages(reported: Reported, environments: Mapping[str, Mapping[str, Any]]) -> Iterator[Page]:
    """The pages of tables: of the newest protocol, of each suite, of each older protocol."""
    if reported.trained:
        yield from comparison_pages(reported.trained, environments)
    if reported.multiplied:
        yield from kernels_pages(reported.multiplied, environments)
    if reported.full:
        yield epochs_page(reported.full)
    for machines in reported.suites.values():
        yield suite_page(machines, environments)
    for datasets in reported.superseded.values():
        yield from other_protocol_pages(datasets, environments, reported.protocol)


def _texts(built: Iterable[Page], out: Path) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of every figure, once each, and of every page."""
    drawn = set()
    for page in built:
        for block in walk(page.content):
            if isinstance(block, Figure) and block.name not in drawn:
                drawn.add(block.name)
                yield f"figures/{block.name}", figures.svg(block)
        yield f"{page.name}{markdown.SUFFIX}", markdown.render(page, out)


def _statuses(records: Iterable[StoredRecord]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for _, record in records:
        counts[record["status"]] = counts.get(record["status"], 0) + 1
    return dict(sorted(counts.items()))


def _write(out: Path, texts: Mapping[str, str]) -> list[Path]:
    """Write all texts or, where the disk does not hold them, none; then delete those of an earlier report."""
    written = {out / name: text for name, text in texts.items()}
    if foreign := [path for path in written if path.is_file() and not _is_of_a_report(path)]:
        others = f" and {len(foreign) - 1} more" if len(foreign) > 1 else ""
        raise RecordError(
            f"{foreign[0]}{others} would be overwritten and is of no report: move it, or give another folder by --out"
        )
    for folder in {path.parent for path in written}:
        folder.mkdir(parents=True, exist_ok=True)
    write_atomic(written)
    for path in sorted({*out.glob(f"*{markdown.SUFFIX}"), *(out / "figures").glob("*.svg")} - set(written)):
        if path.is_file() and _is_of_a_report(path):
            path.unlink()
    return list(written)


def _is_of_a_report(path: Path) -> bool:
    return MARK in path.read_text(encoding="utf-8", errors="replace")[:1000]
