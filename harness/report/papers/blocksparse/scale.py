"""Modelled epochs on more ranks than a machine has, and the same model beside real ranks."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from harness.report import formats
from harness.report.content import NOTHING, Block, Cell, Table, Value, columns
from harness.report.figures import FAINT
from harness.report.papers.blocksparse.ranks import MIB
from harness.report.rows import Row
from harness.report.suites.records import SuiteRecords, name_of, option, seconds

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Modelled = Mapping[str, Any]
CARDS = 8  # of the paper's machine


def scale(records: SuiteRecords) -> list[Block]:
    """One row per network and number of ranks: the modelled epoch beside the measured one of one process."""
    rows: list[list[Cell]] = []
    for name, row, modelled in _models(records):
        label = f"{name}: {_network(row)}{formats.doubtful(row)}"
        rows.append([label, str(modelled["ranks"]), *_cells(row, modelled)])
    heads = columns("", "ranks", "modelled epoch", "to one process", "compute", "exposed", "received", "imbalance")
    return [Table(heads, [*rows, *records.published("scale", len(heads))])] if rows else []


def validation(records: SuiteRecords) -> list[Block]:
    """One row per network: the model's epoch beside that of real ranks on this machine, timed in turns."""
    rows: list[list[Cell]] = []
    for name, row, modelled in _checks(records):
        values = [Value(modelled[key], "{:.4f}") for key in ("seconds", "measured")]
        name += formats.doubtful(row)
        errors = sorted(one / other - 1.0 for one, other in modelled["rounds"])
        spread = f"{errors[0]:+.0%} to {errors[-1]:+.0%}"
        rows.append(
            [f"{name}: {_network(row)}", str(modelled["ranks"]), *values, Value(_error(modelled), "{:+.0%}"), spread]
        )
    heads = columns("", "ranks", "modelled", "measured", "off by", "in single rounds")
    return [Table(heads, rows)] if rows else []


def modelled_gain(records: SuiteRecords) -> str:
    """The range of modelled speed-ups at 8 ranks over networks and schemes."""
    factors = [curve[CARDS] for curve in speedups(records).values() if CARDS in curve]
    return f"{min(factors):.2g} to {max(factors):.2g} times, modelled" if factors else NOTHING


def largest_error(records: SuiteRecords) -> str:
    """How far the model is from real ranks at most."""
    checks = [(abs(_error(modelled)), bool(row.doubts)) for _, row, modelled in _checks(records)]
    errors, doubtful = [error for error, in_doubt in checks if not in_doubt], sum(in_doubt for _, in_doubt in checks)
    left_out = [f"{doubtful} left out as doubtful (⚠)"] * bool(doubtful)
    within = [f"within {max(errors):.0%} of real ranks"] if errors else []
    return ", ".join(within + left_out) or NOTHING


def speedups(records: SuiteRecords) -> dict[str, dict[int, float]]:
    """Modelled speed-up over one process by the number of ranks, for each network, of its fastest good row."""
    curves: dict[str, dict[int, float]] = {}
    for name, row, modelled in _models(records):
        if row.doubts:
            continue
        curve = curves.setdefault(f"{name}: {_network(row)}", {})
        # the fastest of several stays, as rows are sorted by time
        curve.setdefault(int(modelled["ranks"]), seconds(row) / modelled["seconds"])
    return curves


def draw(data: Mapping[str, Mapping[int, float]]) -> "Figure":
    """Speed-up over the number of ranks, one line per network."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.5, 3.4), layout="constrained")
    axes = figure.subplots()
    for label, curve in data.items():
        ranks = sorted(curve)
        axes.plot(ranks, [curve[count] for count in ranks], marker="o", markersize=3, label=label)
    axes.set_xscale("log", base=2)
    axes.set_xlabel("ranks")
    axes.set_ylabel("modelled speed-up")
    axes.grid(color=FAINT, linewidth=0.6)
    if data:
        axes.legend(frameon=False, fontsize=7)
    return figure


def _models(records: SuiteRecords) -> Iterator[tuple[str, Row, Modelled]]:
    """The modelled epochs of all rows whose ranks have machines of their own."""
    for name, row, modelled in _replayed(records):
        # in older records also models on this machine's cores, timed at other times than the real ranks
        if _real_ranks(row) == 1 and option(row, "replay_on") != "cores":
            yield name, row, modelled


def _checks(records: SuiteRecords) -> Iterator[tuple[str, Row, Modelled]]:
    """The modelled epochs of all rows of real ranks that have a core each."""
    for name, row, modelled in _replayed(records):
        if _real_ranks(row) > 1 and not row.oversubscribed:
            yield name, row, modelled


def _replayed(records: SuiteRecords) -> Iterator[tuple[str, Row, Modelled]]:
    for dataset, comparison in records.comparisons("train"):
        for row in comparison.rows:
            if row.ok and row.time is not None:
                for modelled in row.record["facts"].get("replay", ()):
                    if "seconds" in modelled:  # else memory did not hold that model
                        yield name_of(dataset, comparison), row, modelled


def _real_ranks(row: Row) -> int:
    return int(option(row, "ranks") or 1)


def _error(modelled: Modelled) -> float:
    """How far the model is from real ranks, as a share of their epoch."""
    return float(modelled["seconds"]) / float(modelled["measured"]) - 1.0


def _network(row: Row) -> str:
    """The network and the scheme in words."""
    link, copies = option(row, "link"), int(option(row, "replication") or 1)
    network = f"{8e-9 * float(link[0]):g} Gbit/s, {1e6 * float(link[1]):g} µs" if link else "no network"
    scheme = f"1.5D, r={copies}" if copies > 1 else "1D"
    overlap = ", overlap" if option(row, "overlap") else ""
    return f"{network}, {scheme}, {option(row, 'exchange')}{overlap}"


def _cells(row: Row, modelled: Modelled) -> list[Cell]:
    return [
        Value(modelled["seconds"], "{:.4f}"),
        Value(seconds(row) / modelled["seconds"], "{:.2f}x"),
        Value(modelled["compute"], "{:.4f}"),
        Value(modelled["exposed"], "{:.4f}"),
        Value(modelled["rows"] / MIB, "{:.1f}"),
        Value(modelled["imbalance"], "{:.3f}"),
    ]
