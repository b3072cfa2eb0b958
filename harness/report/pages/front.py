"""Front page of the reports: means of our speed beside the peers', and a list of the other pages."""

from collections.abc import Mapping, Sequence

from harness.report.comparisons import DatasetComparisons
from harness.report.content import Block, Cell, Code, Column, Details, Hyperlink, Page, Paragraph, Section, Span, Table
from harness.report.pages import datasets as data
from harness.report.pages import epochs, kernels
from harness.report.reported import Reported
from harness.report.scopes import machines_of, on_each_machine
from harness.report.suites.records import SuiteRecords


def front_page(statuses: Mapping[str, int], reported: Reported) -> Page:
    """Counts of records by status, the means of one aggregation and of full-batch epochs by machine, the pages."""
    counts = ", ".join(f"{count} {status}" for status, count in statuses.items())
    origin: list[Span] = [
        *(f"Made from {sum(statuses.values())} records in ", Code("results/"), f" ({counts}) and nothing else. "),
        *(Code("python -m harness report"), " writes these pages again; ", Code("python -m harness validate")),
        " checks that every committed record is cited by one.",
    ]
    reading = (
        "How many times as fast our fastest engine is as the fastest form of any peer (PyTorch Geometric, DGL, plain "
        "PyTorch) that was measured in turns with it; below 1 the peer is faster. Every row with a number passed the "
        "parity gate, except rows marked as unchecked."
    )
    content: list[Block] = [Paragraph(origin), Paragraph(reading), Paragraph(_scope(reported))]
    if reported.multiplied:
        aggregation = on_each_machine(reported.multiplied, kernels.means_and_figure)
        content.append(Section("One aggregation, forward and backward", aggregation))
    if reported.full:
        content.append(Section("One full-batch epoch", on_each_machine(reported.full, epochs.means_alone)))
    if links := _parts(reported.trained):
        content.append(Paragraph(["What an epoch's seconds are for, with a picture per data set: ", *links, "."]))
    content.append(Section("The pages", [_pages(reported), _datasets(reported.trained, reported.multiplied)]))
    return Page("README", "Reports", content)


def _scope(reported: Reported) -> list[Span]:
    """The machines and the protocol of this page's numbers, and where older ones are."""
    machines = machines_of([*reported.trained, *reported.multiplied])
    text: list[Span] = [
        f"Protocol {reported.protocol} is the newest with good records. It was measured on {machines}; a machine has ",
        "means below only if ours and a peer were measured in turns there. ",
        *("Every headline by date and commit is on ", Hyperlink(page="history")),
    ]
    for protocol in reported.superseded:
        text += [f"; records of protocol {protocol} are on ", Hyperlink(page=f"protocol-{protocol}")]
    return [*text, ". No mean goes over several machines or protocols."]


def _pages(reported: Reported) -> Table:
    about = {
        "kernels": "one aggregation, forward and backward: ours and the fastest peer, fraction of this machine's "
        "ceiling; a page of every form of every engine for each data set and machine",
        "epochs": "full-batch epochs by depth: ours and the fastest peer, the dense floor, memory",
        **{name: _suite(machines, reported.protocol) for name, machines in reported.suites.items()},
        "comparison": "epoch time with interval and ratio to the fastest peer, phases, hit rate, "
        "scores beside published ones, memory; a page for each data set and machine",
        "history": "each headline by date and commit, what was measured again, links to superseded records",
        **{f"protocol-{number}": f"all tables of protocol {number}" for number in reported.superseded},
    }
    missing = {"kernels": not reported.multiplied, "epochs": not reported.full, "comparison": not reported.trained}
    rows: list[list[Cell]] = [[Hyperlink(page=name), text] for name, text in about.items() if not missing.get(name)]
    return Table(_left("page", "what it shows"), rows)


def _suite(machines: Sequence[SuiteRecords], newest: int) -> str:
    """A suite's title, and its protocol where that is not the newest."""
    protocol = machines[0].scope.protocol
    return machines[0].suite.title + ("" if protocol == newest else f" (protocol {protocol})")


def _parts(trained: Sequence[DatasetComparisons]) -> list[Span]:
    """Links to the data sets on which the parts of an epoch are known."""
    known = [dataset for dataset in trained if any(row.parts() for row in dataset.rows)]
    spans: list[Span] = []
    for dataset in known:
        link = Hyperlink(f"{dataset.name} on {dataset.machine}", data.tables_page("comparison", dataset))
        spans += [", ", link] if spans else [link]
    return spans


def _datasets(trained: Sequence[DatasetComparisons], multiplied: Sequence[DatasetComparisons]) -> Details:
    rows = [_dataset(dataset, "kernels", ", one aggregation") for dataset in multiplied]
    rows += [_dataset(dataset, "comparison", "") for dataset in trained]
    heads = [*_left("data set", "machine"), *[Column(title) for title in ("tables", "rows", "rows without a result")]]
    return Details("Data sets", [Table(heads, rows)])


def _dataset(dataset: DatasetComparisons, page: str, what: str) -> list[Cell]:
    link = Hyperlink(f"{dataset.name}{what}", data.tables_page(page, dataset))
    synthetic = " (synthetic)" if dataset.facts.get("synthetic") else ""
    counts = (len(dataset.comparisons), len(dataset.rows), sum(not row.ok for row in dataset.rows))
    return [[link, synthetic], dataset.machine, *map(str, counts)]


def _left(*titles: str) -> list[Column]:
    return [Column(title, align="left") for title in titles]
