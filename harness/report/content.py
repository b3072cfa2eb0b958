"""Content of a page as data: sections, texts, tables, figures; a renderer writes it in one format."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import matplotlib.figure

NOTHING = "—"


@dataclass(frozen=True)
class Strong:
    """Emphasised words."""

    text: str


@dataclass(frozen=True)
class Code:
    """A name or a command inside a sentence."""

    text: str


@dataclass(frozen=True)
class Hyperlink:
    """A link to a ``page``, to a ``record`` or to a ``source`` file.

    A link to a page needs no text: its renderer knows what the page's file is called.
    """

    text: str = ""
    page: str = ""
    record: Path | None = None
    source: str = ""


Span = str | Strong | Code | Hyperlink
Text = Span | Sequence[Span]


@dataclass(frozen=True)
class Value:
    """A number and its format; ``None`` is printed as a dash, never as zero: it was not measured."""

    number: float | None
    form: str = "{:.3g}"

    def __str__(self) -> str:
        return NOTHING if self.number is None else self.form.format(self.number)


Cell = Text | Value


@dataclass(frozen=True)
class Column:
    """Head of a column: its title, the unit of its numbers, its alignment."""

    title: str
    unit: str = ""
    align: Literal["left", "right"] = "right"


@dataclass(frozen=True)
class Table:
    """Rows of as many cells as there are columns."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                titles = ", ".join(column.title for column in self.columns)
                raise ValueError(
                    f"a row of {len(row)} cells in a table of {len(self.columns)} columns ({titles}): {row}"
                )


@dataclass(frozen=True)
class Figure:
    """A drawing of ``data``, kept below the reports under ``figures`` by its ``name``, which ends in ``.svg``."""

    title: str
    name: str
    data: Any
    draw: "Callable[[Any], matplotlib.figure.Figure]"

    def __post_init__(self) -> None:
        if not self.name.endswith(".svg"):
            raise ValueError(f"figure {self.name!r} is written as SVG: give a name that ends in .svg")


@dataclass(frozen=True)
class Paragraph:
    """Sentences."""

    text: Text


@dataclass(frozen=True)
class Bullets:
    """An unordered list."""

    items: Sequence[Text]


@dataclass(frozen=True)
class Commands:
    """Command lines to copy."""

    lines: Sequence[str]


@dataclass(frozen=True)
class Details:
    """Content that is folded away behind its title."""

    title: Text
    content: "Sequence[Block]"


@dataclass(frozen=True)
class Section:
    """Content under a heading."""

    title: str
    content: "Sequence[Block]"


Block = Section | Details | Paragraph | Bullets | Commands | Table | Figure


@dataclass(frozen=True)
class Page:
    """A page of the reports; ``name`` is its file without the ending."""

    name: str
    title: str
    content: Sequence[Block]


def columns(*heads: str | tuple[str, str]) -> list[Column]:
    """Columns of a table of numbers from titles or (title, unit): the first names the row and aligns left."""
    pairs = [(head, "") if isinstance(head, str) else head for head in heads]
    return [Column(title, unit, "right" if place else "left") for place, (title, unit) in enumerate(pairs)]


def spans(text: Text) -> Sequence[Span]:
    """Return the spans of a text, which may be a single span."""
    return (text,) if isinstance(text, str | Strong | Code | Hyperlink) else text


def term(name: str, meaning: Text) -> Text:
    """A name, such as a column's title, with its meaning."""
    return [Strong(name), ": ", *spans(meaning)]


def bullets(items: Sequence[Text]) -> list[Block]:
    """A list with these items, no block where there are none."""
    return [Bullets(items)] if items else []


def linked_records(content: Sequence[Block]) -> Iterator[Path]:
    """Yield the records that texts and tables link to."""
    for block in walk(content):
        texts: list[Any] = []
        match block:
            case Paragraph():
                texts = [block.text]
            case Bullets():
                texts = list(block.items)
            case Details():
                texts = [block.title]
            case Table():
                texts = [cell for row in block.rows for cell in row if not isinstance(cell, Value)]
        links = (span for text in texts for span in spans(text))
        yield from (span.record for span in links if isinstance(span, Hyperlink) and span.record is not None)


def walk(content: Sequence[Block]) -> Iterator[Block]:
    """Yield all blocks, those inside sections and details after the block that holds them."""
    for block in content:
        yield block
        if isinstance(block, Section | Details):
            yield from walk(block.content)
