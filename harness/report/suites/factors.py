"""How many times as fast a row of a suite is as another, by processes that both had in one pass of a run alone."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from harness.report import formats
from harness.report.content import NOTHING
from harness.report.rows import Row
from harness.report.speedups import contest, times_as_fast
from harness.store.statistics import Summary

Factor = Callable[[Row, Row], Summary | None]


class RowPair(NamedTuple):
    """Two rows to compare; of ``peers`` the second one is the fastest, where it was chosen so."""

    row: Row | None
    other: Row | None
    peers: Sequence[Row] = ()


def times(row: Row | None, other: Row | None, form: str = "{:.3g}", factor: Factor = times_as_fast) -> str:
    """How many times as fast a row is as another, with ``~`` where it may be 1; a dash without a common process."""
    ratio = None if row is None or other is None else factor(row, other)
    if ratio is None:
        return NOTHING
    return form.format(ratio.median) + ("" if row is other else formats.unclear(ratio))


def factors_of(pairs: Iterable[RowPair], factor: Factor = times_as_fast) -> tuple[list[float], str]:
    """Ascending factors of the pairs, without those in doubt and pairs that do not compare; a remark counts these.

    The remark is empty where there are none.
    """
    known = [(row, other, peers) for row, other, peers in pairs if row is not None and other is not None]
    in_turns = [(ratio, row, other, peers) for row, other, peers in known if (ratio := factor(row, other)) is not None]
    good = sorted(figure[0].median for figure in in_turns if is_headline(*figure))
    doubtful, apart = len(in_turns) - len(good), len(known) - len(in_turns)
    remarks = {"left out as doubtful (⚠)": doubtful, "not comparable": apart}
    return good, ", ".join(f"{count} {reason}" for reason, count in remarks.items() if count)


def range_of(pairs: Iterable[RowPair], form: str, unit: str = "", factor: Factor = times_as_fast) -> str:
    """The lowest and the highest factor; what is left out is counted."""
    factors, remark = factors_of(pairs, factor)
    if not factors:
        return remark or NOTHING
    ends = dict.fromkeys(form.format(value) for value in (factors[0], factors[-1]))
    return f"{' to '.join(ends)}{unit}{f', {remark}' if remark else ''}"


def is_headline(ratio: Summary, row: Row, other: Row, peers: Sequence[Row] = ()) -> bool:
    """Whether a summary may show a figure: good and like samples, enough processes, no peer that may be faster."""
    return not (row.doubts or other.doubts or formats.too_few(ratio) or contest(row, other, peers))
