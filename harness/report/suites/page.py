"""Page of a suite: the paper's claims, flaws of its comparison, the suite's sections and records."""

from collections.abc import Mapping, Sequence
from typing import Any

from harness.report.comparisons import Comparison, DatasetComparisons
from harness.report.content import (
    Block,
    Bullets,
    Cell,
    Code,
    Figure,
    Page,
    Paragraph,
    Section,
    Span,
    Strong,
    Table,
    bullets,
    columns,
    term,
)
from harness.report.forms import forms_tried
from harness.report.pages import provenance
from harness.report.scopes import machines_of, on_each_machine
from harness.report.suites.records import SuiteRecords, name_of
from harness.report.suites.registry import measure_of, section_of

CLAIMS = (
    '"Measured here" repeats the paper\'s comparison on this machine. "Fair baseline" compares with the fastest peer '
    'in its best form, whatever the paper compared with. Rows that begin with "paper:" hold numbers from the text of '
    "the paper; its tables are images in the copies at hand. — means not measured."
)


def suite_page(machines: Sequence[SuiteRecords], environments: Mapping[str, Mapping[str, Any]]) -> Page:
    """Build the page of one suite from its records of each machine, a section for each where there are several.

    Raises UsageError where the suite's file names an unknown section or measure.
    """
    suite, protocol = machines[0].suite, machines[0].scope.protocol
    count = sum(len(row.cells) for records in machines for dataset in records.datasets for row in dataset.rows)
    intro: list[Span] = [
        *(Code(f"python -m harness +suite={suite.name}"), " measures the cells of the quick tier, "),
        *("with ", Code("tier=full"), f" those of the full one. This page is made from {count} of its records, "),
        f"measured under protocol {protocol} on {machines_of(machines)}.",
    ]
    content: list[Block] = [Paragraph(intro)]
    if suite.claims:
        content += [*on_each_machine(machines, _claims), Paragraph(CLAIMS)]
    if suite.unfair:
        content.append(Section("What is unfair in the published comparison", [Bullets(suite.unfair)]))
    content += on_each_machine(machines, _measured)
    content.append(provenance.environments_of([one for part in machines for one in part.datasets], environments))
    return Page(suite.name, suite.title, content)


def _claims(machine: Sequence[SuiteRecords], suffix: str) -> list[Block]:
    return [claims(records) for records in machine]


def _measured(machine: Sequence[SuiteRecords], suffix: str) -> list[Block]:
    """Sections and records of one machine; the names of its figures end with ``suffix``."""
    (records,) = machine
    tables = [block for dataset, comparison in records.comparisons() for block in _records_of(dataset, comparison)]
    again = Section("Measure it again; the records", tables)
    return [*sections(records, suffix), *forms_tried(records.datasets), again]


def claims(records: SuiteRecords) -> Table:
    """The paper's claims beside our measurements of them and those against the fairest baseline."""
    rows: list[list[Cell]] = []
    for claim in records.suite.claims:
        measure = measure_of(claim["measure"])
        measured = [measure.measured(records), measure.fair(records)]
        rows.append([claim["what"], claim["paper"], *measured, claim.get("source", "")])
    return Table(columns("", "paper", "measured here", "fair baseline", "where the paper says so"), rows)


def sections(records: SuiteRecords, suffix: str = "") -> list[Section]:
    """The sections that a suite names and that its records fill, each with its figure."""
    filled = []
    for name in records.suite.report:
        section = section_of(name)
        if content := section.content(records):
            figures = [_figure(records, name, suffix)] if section.figure else []
            terms = bullets([term(word, meaning) for word, meaning in section.terms.items()])
            filled.append(Section(section.title, [Paragraph(section.reading), *terms, *content, *figures]))
    return filled


def _figure(records: SuiteRecords, name: str, suffix: str) -> Figure:
    section = section_of(name)
    assert section.figure is not None
    data = section.figure.data(records)
    return Figure(section.title, f"{records.suite.name}-{name}{suffix}.svg", data, section.figure.draw)


def _records_of(dataset: DatasetComparisons, comparison: Comparison) -> list[Block]:
    settings = f", on {dataset.machine}. {provenance.settings(comparison)}."
    return [
        Paragraph([Strong(name_of(dataset, comparison)), settings]),
        *provenance.row_notes(comparison),
        provenance.records(comparison),
    ]
