"""What the page of the kernels says: one aggregation, ours beside the fastest form of the peers and the machine."""

from collections.abc import Iterable, Sequence

from harness.report import tables
from harness.report.parts import DatasetPart
from harness.report.rows import Row
from harness.report.versus import Versus, mean_speedups, versus

LARGE = 1_000_000
NEAR = 0.75
KINDS = {False: "spmm (gcn, sage)", True: "gat"}
HEAD = ("time", "forward", "backward", "ratio to fastest peer", "GB/s", "xNR", "of the ceiling", "of the limit")


class Cell(Versus):
    """The same of one aggregation."""

    @property
    def name(self) -> str:
        """Data set and what was aggregated how."""
        return f"{self.part.name}, {', '.join(self.comparison.title.split(', ')[:-2]).replace(', spmm', '')}"

    @property
    def attention(self) -> bool:
        """Whether it is gat's aggregation."""
        return bool(self.ours.record["config"]["model"]["name"] == "gat")

    @property
    def large(self) -> bool:
        """Whether the matrix has more than a million edges."""
        return max((item["nnz"] for item in self.ours.record.get("facts", {}).get("spmm", ())), default=0) > LARGE


def cells(parts: Iterable[DatasetPart]) -> list[Cell]:
    """One per table in which one of our engines and a peer were measured in turns."""
    return [Cell(held.part, held.comparison, held.ours, held.peer) for held in versus(parts)]


def means(parts: Iterable[DatasetPart]) -> str:
    """Geometric means of our speed in units of the fastest peer's, large and small matrices apart."""
    held, speedups = cells(parts), dict[str, list[float]]()
    for attention, kind in KINDS.items():
        for large, size in ((True, "nnz > 10^6"), (False, "nnz ≤ 10^6")):
            mine = [cell.speedup for cell in held if (cell.attention, cell.large) == (attention, large)]
            speedups |= {f"{kind}, {size}": mine} if mine else {}
    slower = [str(sum(value < 1 for value in mine)) for mine in speedups.values()]
    return mean_speedups(speedups, {"slower than a peer": slower})


def overview(parts: Iterable[DatasetPart]) -> str:
    """One line per table: our time, the fastest peer, how many times as fast, how close to the machine."""
    head = ["", "ours [ms]", "fastest peer [ms]", "which", "times as fast", "xNR", "of the ceiling"]
    return tables.markdown(head, [_line(cell) for cell in cells(parts)])


def _line(cell: Cell) -> list[str]:
    times = [tables.number(row.time.median * 1e3 if row.time else None, "{:.3g}") for row in (cell.ours, cell.peer)]
    return [
        f"{cell.name}{'' if cell.large else ' (small)'}",
        *times,
        cell.peer.label,
        f"{cell.speedup:.3g}x",
        tables.number(cell.ours.middle("limits", "xnr"), "{:.3g}"),
        tables.number(cell.ours.middle("limits", "fraction_of_ceiling"), "{:.0%}"),
    ]


def results(rows: Sequence[Row]) -> str:
    """The table of one graph and width: every form of every engine."""
    unit, factor = tables.unit_of(rows)
    head = [f"{name} [{unit}]" if place < 3 else name for place, name in enumerate(HEAD)]
    return tables.markdown(["engine", *head, "hit rate", "memory"], [_result(row, factor) for row in rows])


def _result(row: Row, factor: float) -> list[str]:
    if row.time is None:
        return [row.label, tables.status(row), *[tables.NOTHING] * 9]
    phases, moved = row.phases(), row.middle("limits", "bytes_worst")
    parts = [tables.number(phases[name] * factor if name in phases else None, "{:.3g}") for name in HEAD[1:3]]
    fractions = [row.middle("limits", f"fraction_of_{name}") for name in ("ceiling", "limit")]
    return [
        f"{row.label}{' ★' if row.fastest_peer else ''}",
        tables.measured(row.time, factor),
        *parts,
        tables.ratio(row),
        tables.number(moved / row.time.median / 1e9 if moved else None, "{:.3g}"),
        tables.number(row.middle("limits", "xnr"), "{:.3g}"),
        *[tables.number(value, "{:.0%}") for value in fractions],
        tables.number(row.middle("cache", "hit_rate"), "{:.1%}"),
        tables.memory(row.middle("memory", "peak")),
    ]


def far(parts: Iterable[DatasetPart]) -> list[str]:
    """What the records say of the large tables in which ours stays below three quarters of the ceiling."""
    said = []
    for cell in cells(parts):
        reached = cell.ours.middle("limits", "fraction_of_ceiling")
        if cell.large and reached is not None and reached < NEAR:
            said.append(f"{cell.name}: {reached:.0%}. {_why(cell.ours)}")
    return said


def _why(row: Row) -> str:
    """Which bound holds, whether rows came from caches, what the threads did: from the record, no guess."""
    reached, limit = (row.middle("limits", f"fraction_of_{name}") or 0.0 for name in ("ceiling", "limit"))
    bound = "reading the rows in order" if limit < reached else "the streams"
    words = [f"The bound is {bound}"]
    if (hits := row.middle("cache", "hit_rate")) is not None:
        place = "caches serve nearly all rows" if hits > 0.9 else "rows come from memory"
        words.append(f"{hits:.0%} of the accesses hit: {place}")
    phases, threads = row.phases(), int(row.record["config"]["threads"])
    if {"forward", "backward"} <= phases.keys():
        words.append(f"backward takes {phases['backward'] / phases['forward']:.2g} times forward")
    if (busy := row.busy()) is not None and busy < 0.85 * threads:
        words.append(f"only {busy:.2g} of {threads} threads were busy")
    return "; ".join(words) + "."
