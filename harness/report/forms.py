"""The search over the peers' own switches: which forms of each were tried, and which was the fastest."""

from collections.abc import Iterable

from harness.report import formats
from harness.report.comparisons import Comparison, DatasetComparisons
from harness.report.content import NOTHING, Block, Cell, Details, Paragraph, Table, Value, columns
from harness.report.rows import Row
from harness.report.speedups import short_title

HEADS = ("", "peer", "forms", "fastest", "slowest / fastest", "all, with their time as a multiple of the fastest")
READING = (
    "Every form of a peer that was measured beside the others of its table: variants, index types, loaders and their "
    "workers, batch sizes of inference, allocators. What a page calls the fastest peer is the fastest of these. A form "
    "that failed or is not possible here stands with its status."
)


def forms_tried(datasets: Iterable[DatasetComparisons]) -> list[Block]:
    """A folded table of the forms of each peer in each comparison; nothing where there are no peers."""
    rows = [
        _row(f"{dataset.name}: {short_title(comparison)}", peer, forms)
        for dataset in datasets
        for comparison in dataset.comparisons
        for peer, forms in by_peer(comparison).items()
    ]
    if not rows:
        return []
    return [Details("Forms of the peers that were tried", [Paragraph(READING), Table(columns(*HEADS), rows)])]


def by_peer(comparison: Comparison) -> dict[str, list[Row]]:
    """The rows of each peer in a comparison, fastest first, by the peer's name."""
    forms: dict[str, list[Row]] = {}
    for row in comparison.rows:
        if row.peer:
            forms.setdefault(str(row.record["config"]["backend"]["name"]), []).append(row)
    return forms


def _row(name: str, peer: str, forms: list[Row]) -> list[Cell]:
    times = [row.time.median for row in forms if row.time]
    best = next((row.label for row in forms if row.time), NOTHING)
    spread = Value(max(times) / min(times), "{:.3g}") if times else NOTHING
    return [name, peer, str(len(forms)), best, spread, "; ".join(_form(row, min(times, default=1.0)) for row in forms)]


def _form(row: Row, fastest: float) -> str:
    result = f"{row.time.median / fastest:.3g}" if row.time else formats.GLYPHS[row.record["status"]]
    return f"{row.label} {result}"
