"""Page of history: each headline by commit and date, and the records that newer ones have superseded."""

from collections.abc import Sequence
from pathlib import Path

from harness.report import figures, formats
from harness.report.content import (
    NOTHING,
    Block,
    Bullets,
    Cell,
    Code,
    Details,
    Figure,
    Hyperlink,
    Page,
    Paragraph,
    Section,
    Span,
    Table,
    Value,
    columns,
)
from harness.report.history import Headline, Measured
from harness.report.rows import Row

INTRODUCTION = (
    "How many times as fast our fastest engine was as the fastest peer that was measured in turns with it, by date and "
    "commit; below 1 the peer was faster. Dates stand alone where the records name no commit; + marks uncommitted "
    "changes. Numbers of different protocols or machines do not compare: no line joins them."
)
SUPERSEDED = (
    "Measured again since, by other code or packages, or in a group without a peer: no table counts these records, but "
    "for ratios of engines that no later run of the same code measured in turns."
)
HEADS = ("", "date", "commit", "machine", "protocol", "times as fast", "ours", "fastest peer")


def history_page(headlines: Sequence[Headline], superseded: Sequence[Path]) -> Page:
    """A section per data set; ``superseded`` are the records that no other page links to."""
    names = dict.fromkeys(headline.dataset for headline in headlines)
    content: list[Block] = [Paragraph(INTRODUCTION)]
    content += [_dataset(name, [one for one in headlines if one.dataset == name]) for name in names]
    if superseded:
        items: list[list[Span]] = [[Hyperlink(_place(path), record=path)] for path in sorted(superseded)]
        folded = Details(formats.plural(len(items), "record"), [Bullets(items)])
        content.append(Section("Superseded records", [Paragraph(SUPERSEDED), folded]))
    return Page("history", "History of the headlines", content)


def _dataset(name: str, headlines: Sequence[Headline]) -> Section:
    rows = [_row(headline.title, point) for headline in headlines for point in headline.points]
    drawn = [
        Figure(f"{name}: {headline.title}", f"history-{name}-{place}.svg", headline, figures.draw_history)
        for place, headline in enumerate(headlines)
        if len(headline.points) > 1
    ]
    return Section(name, [Table(columns(*HEADS), rows), *drawn])


def _row(title: str, point: Measured) -> list[Cell]:
    machine, protocol = point.scope.machine, str(point.scope.protocol)
    commit: Cell = [Code(point.commit)] if point.commit else NOTHING
    return [
        title,
        point.date,
        commit,
        machine,
        protocol,
        formats.compared(point.factor),
        *map(_engine, (point.ours, point.peer)),
    ]


def _engine(row: Row) -> list[Span]:
    """An engine with its time and what speaks against that, linked to its first good record."""
    path = next(path for path, record in row.cells if record["status"] == "ok")
    time = Value(row.time.median if row.time else None, "{:.3g} s")
    return [Hyperlink(row.label, record=path), f" {time}{formats.doubtful(row)}"]


def _place(path: Path) -> str:
    """The last parts of a record's path, which name its data set, model, engine and scenario."""
    return "/".join(path.parts[-6:])
