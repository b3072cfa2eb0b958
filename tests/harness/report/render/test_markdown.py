"""Markdown renderer: marks of every block and span, cells that stay in their column."""

from pathlib import Path

import pytest

from harness.report.content import (
    Bullets,
    Code,
    Commands,
    Details,
    Figure,
    Hyperlink,
    Page,
    Paragraph,
    Section,
    Strong,
    Table,
    Value,
    columns,
)
from harness.report.render.markdown import render


def rendered(*blocks: object) -> str:
    """The text of a page below its title."""
    return render(Page("name", "Title", blocks), Path("reports")).partition("# Title\n\n")[2]  # type: ignore[arg-type]


def test_a_page_says_that_it_is_generated_and_has_one_title() -> None:
    text = render(Page("name", "Title", []), Path("reports"))
    assert "Do not edit" in text.splitlines()[0] and text.count("\n# Title\n") == 1


def test_headings_are_as_deep_as_their_sections() -> None:
    inner = Section("inner", [Paragraph("text")])
    assert rendered(Section("outer", [inner])) == "## outer\n\n### inner\n\ntext\n"


def test_cells_stay_in_their_column_and_on_their_line() -> None:
    table = Table(columns("name", ("time", "s")), [["a | b\n<c>", Value(0.5)], ["d", Value(None)]])
    assert rendered(table) == "| name | time [s] |\n| --- | ---: |\n| a \\| b &lt;c> | 0.5 |\n| d | — |\n"


def test_a_row_is_as_wide_as_its_table() -> None:
    with pytest.raises(ValueError, match="a row of 1 cells in a table of 2 columns"):
        Table(columns("name", "time"), [["alone"]])


def test_links_lead_to_pages_records_and_sources() -> None:
    links = [
        Hyperlink(page="epochs"),
        Hyperlink("0", record=Path("results/a/seed=0.json")),
    ]
    expected = ["[epochs.md](epochs.md)", "[0](../results/a/seed=0.json)"]
    assert [rendered(Paragraph(link)).strip() for link in links] == expected
    assert rendered(Paragraph(Hyperlink("code", source="a/b.py"))) == "[code](../a/b.py)\n"


def test_targets_of_links_hold_nothing_that_ends_them() -> None:
    record = Hyperlink("0", record=Path("my results (old)/a/seed=0.json"))
    assert rendered(Paragraph(record)) == "[0](../my%20results%20%28old%29/a/seed=0.json)\n"
    assert rendered(Paragraph(Hyperlink("own", "my set"))) == "[own](my%20set.md)\n"


def test_spans_lists_details_commands_and_figures_have_their_marks() -> None:
    text = rendered(
        Bullets([[Strong("a"), " ", Code("b")], "c"]),
        Details([Code("d")], [Commands(["run"])]),
        Figure("e", "e.svg", [], lambda data: data),
    )
    assert text == (
        "- **a** `b`\n- c\n\n<details><summary><code>d</code></summary>\n\n```\nrun\n```\n\n</details>\n\n"
        "![e](figures/e.svg)\n"
    )
