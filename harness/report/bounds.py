"""Shares of a bound as tables print them: a time that beats its bound shows a fault of the bound, not a share."""

from collections.abc import Iterable

from harness.report.content import Cell, Value
from harness.report.rows import Row

BEATEN = "bound beaten"
ROUNDED = 1.005  # prints as 100 %
BOUNDS = {
    "limit": "the least time of its bytes and operations",
    "ceiling": "the time of reading its rows in the order of the edges",
    "dense_floor": "the least time of its dense products",
}


def share(row: Row, bound: str) -> Cell:
    """The share of a bound that a row reaches; no share where the row is faster than the bound."""
    fraction = row.median("limits", f"fraction_of_{bound}")
    return BEATEN if fraction is not None and fraction > ROUNDED else Value(fraction, "{:.0%}")


def multiple(seconds: float | None, floor: float | None) -> Cell:
    """A time in units of a floor."""
    if not seconds or not floor:
        return Value(None)
    return BEATEN if floor > ROUNDED * seconds else Value(seconds / floor, "{:.2f}")


def floor_of(rows: Iterable[Row]) -> float | None:
    """Dense floor of rows that were measured together, seconds: the least that any of their processes reached."""
    return min((floor for row in rows for floor in row.values("limits", "dense_floor")), default=None)


def beaten(row: Row, floor: float | None) -> list[str]:
    """A sentence for each bound that a row's time is below; ``floor`` is that of its table."""
    if row.time is None:
        return []
    time = row.time.median
    fractions = {name: row.median("limits", f"fraction_of_{name}") for name in ("limit", "ceiling")}
    bounds = {name: fraction * time for name, fraction in fractions.items() if fraction is not None}
    if floor is not None and row.median("limits", "dense_floor") is not None:
        bounds["dense_floor"] = floor
    return [
        f"{BEATEN}: measured {time * 1e3:.4g} ms, bound {bound * 1e3:.4g} ms ({BOUNDS[name]}): the bound is wrong"
        for name, bound in bounds.items()
        if bound > ROUNDED * time
    ]
