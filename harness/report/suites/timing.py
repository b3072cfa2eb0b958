"""Blocks about time: every cell, ours beside the fastest peer, each idea alone, and when preparation has paid off."""

from collections.abc import Sequence

from harness.report import tables
from harness.report.rows import Row
from harness.report.suites.part import (
    SuitePart,
    ablations,
    at_its_best,
    fastest,
    name_of,
    option,
    prepared,
    seconds,
    told_apart,
    unflattened,
)
from harness.store.statistics import geometric_mean

ALL, DEFAULT = "all", "default"
CELL = ("n", "CPU s per s", "ratio to fastest peer", "times as fast as base", "peak memory", "once before [s]")


def cells(held: SuitePart) -> str:
    """One table per comparison: each engine and form, its ratio to the fastest peer and to our own base."""
    texts = []
    for part, comparison in held.comparisons():
        unit, factor = tables.unit_of(comparison.rows)
        base = next((row for row in comparison.rows if ablations(row) == ("base",) and row.ok), None)
        lines = [_cell(row, factor, base) for row in comparison.rows]
        table = tables.markdown(["engine", f"{tables.timed(comparison.rows)} [{unit}]", *CELL], lines)
        texts.append(f"### {name_of(part, comparison)}\n\n{table}")
    return "\n\n".join(texts)


def _cell(row: Row, factor: float, base: Row | None) -> list[str]:
    if row.time is None:
        return [told_apart(row), tables.status(row), f"0 of {len(row.cells)}", *[tables.NOTHING] * (len(CELL) - 1)]
    return [
        f"{told_apart(row)}{' ★' if row.fastest_peer else ''}",
        tables.measured(row.time, factor) + (" ≈" if row.record.get("extrapolated") else ""),
        str(len(row.ok)),
        tables.number(row.busy(), "{:.2f}"),
        tables.ratio(row),
        tables.number(None if base is None else seconds(base) / row.time.median, "{:.3g}"),
        tables.memory(row.middle("memory", "peak")),
        f"{prepared(row):.3g}",
    ]


def overview(held: SuitePart) -> str:
    """One line per comparison that holds an engine of ours and a peer: ours at its best, the peer in its best form."""
    lines, factors = [], []
    for part, comparison in held.comparisons():
        ours, peer = at_its_best(comparison.rows), fastest(comparison.rows)
        if ours is None or peer is None:
            continue
        factors.append(seconds(peer) / seconds(ours))
        times = [f"{seconds(row):.4g}" for row in (ours, peer)]
        lines.append([name_of(part, comparison), ours.label, times[0], times[1], peer.label, f"{factors[-1]:.3g}x"])
    if not lines:
        return ""
    lines.append(["geometric mean", "", "", "", "", f"{geometric_mean(factors):.3g}x"])
    head = ["", "ours", "[s]", "fastest peer [s]", "which", "times as fast"]
    return tables.markdown(head, [*lines, *held.published("overview", len(head))])


def ideas(held: SuitePart) -> str:
    """One line per comparison with a base: how many times as fast as it each idea alone, some and all of them are."""
    found = []
    for part, comparison in held.comparisons():
        own = [row for row in comparison.rows if not row.peer and row.ok and option(row, "source") in (None, "graph")]
        base = next((row for row in own if ablations(row) == ("base",)), None)
        if base is not None:
            others = {_idea(row): seconds(base) / seconds(row) for row in reversed(own) if row is not base}
            found.append((name_of(part, comparison), seconds(base), others))
    found_names = {name for _, _, others in found for name in others}
    names = sorted(found_names, key=lambda name: (name in (ALL, DEFAULT), len(name), name))
    lines = [
        [name, f"{spent:.3g}", *[tables.number(others.get(key), "{:.3g}x") for key in names]]
        for name, spent, others in found
    ]
    return tables.markdown(["", "base [s]", *names], lines) if lines else ""


def _idea(row: Row) -> str:
    """What was switched on, as a column: rows that name nothing have a pipeline, or too few threads for one."""
    if named := ablations(row):
        return "+" + " +".join(named)
    return ALL if row.record.get("facts", {}).get("overlaps") else DEFAULT


def breakeven(held: SuitePart) -> str:
    """One line per row of ours that prepares for longer than the fastest peer, or reads what GraphFlat wrote."""
    lines = []
    for part, comparison in held.comparisons("train"):
        peer = fastest(comparison.rows)
        for row in comparison.rows:
            if peer is None or row.peer or not row.ok or ablations(row):
                continue
            lines.append([name_of(part, comparison), row.label, *_preparation(row), peer.label, *_paid(row, peer)])
    head = ["", "ours", "prepared once [s]", "of that flatten [s]", "bytes on disk", "copies of a node"]
    head += ["fastest peer", "prepared once [s]", "epoch, ours [s]", "epoch, peer [s]", "break-even epochs"]
    return tables.markdown(head, lines) if lines else ""


def _preparation(row: Row) -> list[str]:
    flattened, held = row.prepare().get("flatten"), row.middle("facts", "bytes_on_disk")
    copies, factor = row.middle("facts", "duplication"), unflattened(row)
    return [
        f"{prepared(row):.3g}",
        tables.number(None if flattened is None else flattened * factor, "{:.3g}"),
        tables.memory(None if held is None else held * factor),
        tables.number(copies, "{:.1f}"),
    ]


def _paid(row: Row, peer: Row) -> list[str]:
    times = [f"{prepared(peer):.3g}", f"{seconds(row):.3g}", f"{seconds(peer):.3g}"]
    return [*times, epochs_until_even(prepared(row) - prepared(peer), seconds(peer) - seconds(row))]


def epochs_until_even(extra: float, saved: float) -> str:
    """After how many epochs ``extra`` seconds of preparation are won back at ``saved`` seconds an epoch."""
    if extra <= 0:
        return "at once" if saved >= 0 else f"ahead for {extra / saved:.3g}"
    return f"{extra / saved:.3g}" if saved > 0 else "never"


def peer_range(held: SuitePart, name: str | None) -> str:
    """How many times as fast ours at its best is as a peer in its best form, from least to most over the tables."""
    pairs: Sequence[tuple[Row | None, Row | None]] = [
        (at_its_best(comparison.rows), fastest(comparison.rows, name)) for _, comparison in held.comparisons()
    ]
    factors = sorted(seconds(peer) / seconds(ours) for ours, peer in pairs if ours is not None and peer is not None)
    if not factors:
        return tables.NOTHING
    ends = dict.fromkeys(f"{value:.3g}" for value in (factors[0], factors[-1]))
    return f"{' to '.join(ends)} times"
