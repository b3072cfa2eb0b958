"""Pages are data: a second renderer writes all of them without a change to any builder."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from harness.report.content import (
    Block,
    Bullets,
    Cell,
    Commands,
    Details,
    Figure,
    Hyperlink,
    Page,
    Paragraph,
    Section,
    Table,
    Value,
    spans,
    walk,
)
from harness.report.pages import provenance
from harness.report.render import markdown
from harness.report.write import pages
from harness.store.files import find_records

ROOT = Path(__file__).resolve().parents[3]
MACHINES = ("amd-epyc-f25m17s1-2c", "intel-xeon-f6m207s2-16c-nvidia-h200")
MARKUP = ("**", "](", "`", "| ", " |", "</")


@pytest.fixture(scope="module")
def committed_pages() -> list[Page]:
    """All pages of half of two machines' groups; commands are left out, because composing them takes minutes."""
    machines = [ROOT / "results" / machine for machine in MACHINES]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(provenance, "overrides", lambda record: ["backend=any"])
        patch.setattr(provenance, "removed_options", lambda record: [])
        records = [(path, record) for machine in machines for path, record in find_records(machine)]
        return list(pages(ROOT / "results", [stored for stored in records if stored[1]["group"][0] < "8"]))


def plain(cell: Cell) -> str:
    """A cell without any marks."""
    if isinstance(cell, Value):
        return str(cell)
    return "".join(span if isinstance(span, str) else span.text for span in spans(cell))


def lines(content: Sequence[Block]) -> Iterator[str]:
    """The second renderer: plain text, cells parted by tabs."""
    for block in content:
        match block:
            case Section() | Details():
                yield plain(block.title)
                yield from lines(block.content)
            case Paragraph():
                yield plain(block.text)
            case Bullets():
                yield from map(plain, block.items)
            case Commands():
                yield from block.lines
            case Table():
                yield from ("\t".join(map(plain, row)) for row in block.rows)
            case Figure():
                yield block.title


def texts(content: Sequence[Block]) -> Iterator[str]:
    """All strings of a page's data."""
    for block in walk(content):
        match block:
            case Section() | Details():
                yield from strings(block.title)
            case Paragraph():
                yield from strings(block.text)
            case Bullets():
                yield from (string for item in block.items for string in strings(item))
            case Table():
                yield from (column.title for column in block.columns)
                yield from (string for row in block.rows for cell in row for string in strings(cell))


def strings(cell: Cell) -> Iterator[str]:
    """The strings of a cell or text."""
    yield from (
        [str(cell)]
        if isinstance(cell, Value)
        else [span if isinstance(span, str) else span.text for span in spans(cell)]
    )


def test_a_second_renderer_writes_every_cell_of_every_page(committed_pages: list[Page]) -> None:
    assert {"README", "comparison", "kernels", "epochs", "agl_cost"} <= {page.name for page in committed_pages}
    for page in committed_pages:
        written = list(lines(page.content))
        tables = [block for block in walk(page.content) if isinstance(block, Table)]
        rows = ["\t".join(map(plain, row)) for table in tables for row in table.rows]
        assert (rows or page.name.startswith("superseded-")) and set(rows) <= set(written)
        rendered = markdown.render(page, ROOT / "reports")
        unmarked = rendered.replace("`", "").replace("\\|", "\0").replace("|", "\n")
        in_markdown = {" ".join(cell.split()) for cell in unmarked.splitlines()}
        cells = {plain(cell) for table in tables for row in table.rows for cell in row if not _linked(cell)}
        escaped = {" ".join(cell.replace("|", "\0").replace("<", "&lt;").split()) for cell in cells}
        assert escaped <= in_markdown, sorted(escaped - in_markdown)[:3]


def test_no_page_is_too_long_to_be_read() -> None:
    for page in (ROOT / "reports").rglob("*.md"):
        size = page.stat().st_size
        assert size < 512 * 1024, f"{page.name} has {size:,} bytes: divide it, as the comparison is by data set"


def _linked(cell: Cell) -> bool:
    return not isinstance(cell, Value) and any(isinstance(span, Hyperlink) for span in spans(cell))


def test_no_markup_of_a_format_stands_in_the_data(committed_pages: list[Page]) -> None:
    marked = {text for page in committed_pages for text in texts(page.content) if any(mark in text for mark in MARKUP)}
    assert not marked
