"""Front page of the reports: means of our speed beside the peers', and a list of the other pages."""

from collections.abc import Mapping, Sequence

from harness.report.comparisons import DatasetComparisons
from harness.report.content import Block, Cell, Code, Column, Details, Hyperlink, Page, Paragraph, Section, Span, Table
from harness.report.pages import epochs, kernels
from harness.report.suites.records import SuiteRecords


def front_page(
    statuses: Mapping[str, int],
    trained: Sequence[DatasetComparisons],
    multiplied: Sequence[DatasetComparisons],
    full: Sequence[DatasetComparisons],
    suites: Sequence[SuiteRecords],
) -> Page:
    """Counts of records by status, the means of one aggregation and of full-batch epochs, the pages."""
    counts = ", ".join(f"{count} {status}" for status, count in statuses.items())
    origin: list[Span] = [
        *(f"Made from {sum(statuses.values())} records in ", Code("results/"), f" ({counts}) and nothing else. "),
        *(Code("python -m harness report"), " writes these pages again; ", Code("python -m harness validate")),
        " checks that every committed record is cited by one.",
    ]
    reading = (
        "How many times as fast our fastest engine is as the fastest form of any peer (PyTorch Geometric, DGL, plain "
        "PyTorch) that was measured in turns with it; below 1 the peer is faster. All rows "
        "with a number passed the parity gate."
    )
    content: list[Block] = [Paragraph(origin), Paragraph(reading)]
    if multiplied:
        aggregation: list[Block] = [kernels.means(multiplied), kernels.figure(multiplied)]
        content.append(Section("One aggregation, forward and backward", aggregation))
    if full:
        content.append(Section("One full-batch epoch", [epochs.means(full)]))
    content.append(Section("The pages", [_pages(bool(multiplied), bool(full), suites), _datasets(trained, multiplied)]))
    return Page("README", "Reports", content)


def _pages(multiplied: bool, full: bool, suites: Sequence[SuiteRecords]) -> Table:
    about = {
        "kernels": "one aggregation, forward and backward: every form of every engine, "
        "fraction of this machine's ceiling",
        "epochs": "full-batch epochs by depth: ours and the fastest peer, the dense floor, memory",
        **{records.suite.name: records.suite.title for records in suites},
        "comparison": "epoch time with interval and ratio to the fastest peer, phases, hit rate, "
        "scores beside published ones, memory",
    }
    missing = {"kernels": not multiplied, "epochs": not full}
    rows: list[list[Cell]] = [[Hyperlink(page=name), text] for name, text in about.items() if not missing.get(name)]
    return Table(_left("page", "what it shows"), rows)


def _datasets(trained: Sequence[DatasetComparisons], multiplied: Sequence[DatasetComparisons]) -> Details:
    rows = [_dataset(dataset, "kernels", ", one aggregation") for dataset in multiplied]
    rows += [_dataset(dataset, "comparison", "") for dataset in trained]
    heads = [*_left("data set", "machine"), *[Column(title) for title in ("tables", "rows", "rows without a result")]]
    return Details("Data sets", [Table(heads, rows)])


def _dataset(dataset: DatasetComparisons, page: str, what: str) -> list[Cell]:
    link = Hyperlink(f"{dataset.name}{what}", page=page, anchor=dataset.anchor)
    synthetic = " (synthetic)" if dataset.facts.get("synthetic") else ""
    counts = (len(dataset.comparisons), len(dataset.rows), sum(not row.ok for row in dataset.rows))
    return [[link, synthetic], dataset.machine, *map(str, counts)]


def _left(*titles: str) -> list[Column]:
    return [Column(title, align="left") for title in titles]
