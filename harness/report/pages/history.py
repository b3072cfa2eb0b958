"""Page of history: each headline by commit and date, and the records that newer ones have superseded."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
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
from harness.report.repeats import Repeat
from harness.report.rows import Row
from harness.report.scopes import Scope

INTRODUCTION = (
    "How many times as fast our fastest engine was as the fastest peer that was measured in turns with it, by date and "
    "commit; below 1 the peer was faster. Dates stand alone where the records name no commit; + marks uncommitted "
    "changes. Numbers of different protocols or machines do not compare: no line joins them."
)
SUPERSEDED = (
    "Newer records of the same cells, of the same or of other code, have replaced these, or their group has no peer: "
    "tables do not count them. One exception: if no later run measured two engines in turns, their ratio comes from an "
    "earlier run of the same code."
)
REPEATED = (
    "Figures beyond doubt of two runs of the same cells on one machine, one after the other. They agree where each "
    "factor lies in the interval that the other run gives for a second run (Student's, 97.5 %, from the spread of its "
    "processes), which is wider than that of its median. If two runs differ by chance alone, 19 pairs in 20 agree. "
    "Where clearly fewer agree, the machine changed between the runs, or the code or packages did."
)
COUNTS = ("machine", "protocol", "code and packages", "pairs of runs", "agree", "share")
_RUN = ("times as fast", "interval of a second run")
PAIRS = ("", "machine", "a run", *_RUN, "the next run", *_RUN)
HEADS = ("", "date", "commit", "machine", "protocol", "times as fast", "ours", "fastest peer")


def history_page(headlines: Sequence[Headline], repeats: Sequence[Repeat], superseded: Sequence[Path]) -> Page:
    """What was measured again, a section per data set, and the pages of the ``superseded`` records."""
    names = dict.fromkeys(headline.dataset for headline in headlines)
    content: list[Block] = [Paragraph(INTRODUCTION)]
    if repeats:
        content.append(_repeated(repeats))
    content += [_dataset(name, [one for one in headlines if one.dataset == name]) for name in names]
    if superseded:
        counts = Counter(map(_dataset_of, sorted(superseded))).items()
        links: list[list[Span]] = [
            [Hyperlink(name, page=_superseded(name)), f": {formats.plural(count, 'record')}"] for name, count in counts
        ]
        content.append(Section("Superseded records", [Paragraph(SUPERSEDED), Bullets(links)]))
    return Page("history", "History of the headlines", content)


def superseded_pages(superseded: Sequence[Path]) -> Iterator[Page]:
    """A page per data set that links to its superseded records, which no other page does."""
    for name, paths in groupby(sorted(superseded, key=lambda path: (_dataset_of(path), path)), _dataset_of):
        links: list[list[Span]] = [[Hyperlink(_place(path), record=path)] for path in paths]
        yield Page(_superseded(name), f"Superseded records: {name}", [Paragraph(SUPERSEDED), Bullets(links)])


def _repeated(repeats: Sequence[Repeat]) -> Section:
    """How many pairs of runs agree, by machine and kind of change, and every pair, those that moved first."""
    kinds: dict[tuple[Scope, bool], list[Repeat]] = {}
    for repeat in repeats:
        kinds.setdefault((repeat.scope, not repeat.same_code), []).append(repeat)
    counts = [_counts(scope, changed, kinds[scope, changed]) for scope, changed in sorted(kinds)]
    moved = [repeat for repeat in repeats if not repeat.agrees]
    agree = [repeat for repeat in repeats if repeat.agrees]
    blocks: list[Block] = [Paragraph(REPEATED), Table(columns(*COUNTS), counts)]
    for what, pairs in (("not agreeing", moved), ("agreeing", agree)):
        if pairs:
            table = Table(columns(*PAIRS), [_pair(repeat) for repeat in pairs])
            blocks.append(Details(f"{formats.plural(len(pairs), 'pair')} {what}", [table]))
    return Section("Measured again", blocks)


def _counts(scope: Scope, changed: bool, repeats: Sequence[Repeat]) -> list[Cell]:
    agree = sum(repeat.agrees for repeat in repeats)
    share = Value(agree / len(repeats), "{:.0%}")
    code = "changed" if changed else "the same"
    return [scope.machine, str(scope.protocol), code, str(len(repeats)), str(agree), share]


def _pair(repeat: Repeat) -> list[Cell]:
    runs = [_run(point) for point in (repeat.before, repeat.after)]
    return [f"{repeat.dataset}: {repeat.title}", repeat.scope.machine, *runs[0], *runs[1]]


def _run(point: Measured) -> list[Cell]:
    """When it was, the factor, and the interval that it gives for another run."""
    assert point.factor.again is not None  # a sound figure has five processes
    low, high = point.factor.again
    moment = f"{point.written[:16].replace('T', ' ')} {point.commit}".strip()
    return [moment, Value(point.factor.median, "{:.3g}x"), f"[{low:.3g}, {high:.3g}]"]


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
        formats.compared(point.factor) + formats.marked(point.contest),
        *map(_engine, (point.ours, point.peer)),
    ]


def _engine(row: Row) -> list[Span]:
    """An engine with its time and what speaks against that, linked to its first good record."""
    path = next(path for path, record in row.cells if record["status"] == "ok")
    time = Value(row.time.median if row.time else None, "{:.3g} s")
    return [Hyperlink(row.label, record=path), f" {time}{formats.doubtful(row)}"]


def _superseded(dataset: str) -> str:
    return f"superseded-{dataset}"


def _dataset_of(path: Path) -> str:
    return path.parts[-6]


def _place(path: Path) -> str:
    """The last parts of a record's path, which name its machine, data set, model, engine and scenario."""
    return "/".join(path.parts[-7:])
