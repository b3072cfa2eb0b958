"""Tables of a run on stdout: the plan of a dry run, the results of a finished one."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from datasets.hashes import digest
from harness.planning.estimate import Estimates
from harness.planning.identity import execution_config, record_path
from harness.planning.plan import Group, Plan
from harness.report import bounds, formats
from harness.report.content import NOTHING, Value
from harness.report.rows import Row, rows
from harness.store.naming import different_titles, flatten

WIDEST = 10_000  # columns, more than any table has
HEAD = ("cell", "status", "time", "n", "to fastest peer", "hit rate", "score", "peak memory", "first call")


def print_plan(plan: Plan) -> None:
    """Print every cell with its path and whether it would run, then the time that earlier records suggest."""
    console, earlier = _console(), Estimates(plan.results)
    estimates: list[float | None] = []
    for group in plan.groups:
        run, reason = group.state(plan.config.retry)
        console.print(f"group {group.id}: {'run' if run else 'skip'}, {reason}", markup=False)
        of_group: list[float | None] = []
        for cell in group.cells:
            path = record_path(cell.config, cell.hash, plan.machine, group.id)
            outcome = f"  ({cell.status}: {cell.message})" if cell.status else ""
            console.print(f"  {path}{outcome}", markup=False)
            if run and cell.status is None:
                of_group.append(earlier.seconds(cell, plan.machine))
        if too_long := _too_long(of_group, group):
            console.print(f"  {too_long}", markup=False)
        estimates += of_group
    console.print(_total_estimate(estimates), markup=False)


def _too_long(estimates: Sequence[float | None], group: Group) -> str:
    """A sentence for a group that would take too long, so that its longest cells will have fewer processes."""
    seconds = sum(estimate for estimate in estimates if estimate is not None)
    limit = min(cell.config.measure.group_seconds for cell in group.cells)
    if seconds <= limit:
        return ""
    outcome = f"its longest cells will have fewer processes or be skipped (measure.group_seconds={limit:g})"
    return f"about {_duration(seconds)}: {outcome}"


def _console() -> Console:
    """Return a console that breaks no line and cuts no table: a terminal wraps lines that are wider than itself."""
    return Console(soft_wrap=True, highlight=False, width=WIDEST)


def _total_estimate(estimates: Sequence[float | None]) -> str:
    known = [seconds for seconds in estimates if seconds is not None]
    if not estimates:
        return "nothing to run"
    if not known:
        return f"{len(estimates)} cells to run; no earlier record tells how long they take"
    unknown = len(estimates) - len(known)
    remark = f", and {unknown} cells without an earlier record" if unknown else ""
    return f"{len(estimates)} cells to run: about {_duration(sum(known))} for {len(known)} of them{remark}"


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def print_results(groups: Iterable[Group], environments: dict[str, Any]) -> None:
    """Print one table per set of groups that differ in the seed only, each under a title of its own."""
    gathered: dict[str, list[Group]] = {}
    for group in groups:
        key = {name: value for name, value in group.key.items() if name != "seed"}
        gathered.setdefault(digest(key), []).append(group)
    measured = {name: same for name, same in gathered.items() if any(group.stored() for group in same)}
    console = _console()
    for title, same in zip(titles(measured), measured.values(), strict=True):
        records = [stored for group in same for stored in group.stored()]
        table_rows = rows(records, environments)
        console.print(title, markup=False)  # as the table's own title it would be wrapped to the table's width
        console.print(_table(table_rows))
        for row in table_rows:
            for sentence in [*bounds.beaten(row, bounds.floor_of(table_rows)), *_dense_share(row)]:
                console.print(f"  {row.label}: {sentence}", markup=False)
        notes = {note for _, record in records for note in record.get("dataset", {}).get("notes", ())}
        messages = {text for _, record in records if (text := record.get("message"))}
        for sentence in [*sorted(notes), *sorted(messages)]:
            console.print(f"  {sentence}", markup=False)


def _dense_share(row: Row) -> list[str]:
    """Which share of the edges dense tiles held, and from which density on a tile was dense, where there were any."""
    facts = row.record.get("facts", {})
    shares, thresholds = facts.get("tiles"), facts.get("threshold")
    if not isinstance(shares, Mapping) or not isinstance(thresholds, Mapping):
        return []
    return [
        f"{name}: {share:.1%} of the edges in tiles that are dense from {thresholds[name]:g} on"
        for name, share in shares.items()
        if share and isinstance(share, float) and isinstance(thresholds.get(name), int | float)
    ]


def titles(tables: Mapping[str, Sequence[Group]]) -> list[str]:
    """Name the tables by what their groups measure; equal names are extended by the settings that differ."""
    names = [_name(groups[0].key) for groups in tables.values()]
    return different_titles(names, [_settings(groups) for groups in tables.values()], list(tables))


def _name(key: Mapping[str, Any]) -> str:
    title = " ".join(str(value) for name, value in key.items() if name not in ("settings", "order", "threads", "seed"))
    order = f" order={key['order']}" if key.get("order", "none") != "none" else ""
    return f"{title}{order} threads={key.get('threads')}"


def _settings(groups: Sequence[Group]) -> dict[str, Any]:
    """The settings that all cells of groups share, with dotted keys, without those of the engines and the seed."""
    configs = [flatten(execution_config(cell.config)) for group in groups for cell in group.cells]
    return {
        key: value
        for key, value in (configs or [{}])[0].items()
        if not key.startswith("backend.") and all(other.get(key, ...) == value for other in configs)
    }


def _table(table_rows: Sequence[Row]) -> Table:
    table = Table(box=SIMPLE_HEAD)
    for index, name in enumerate(HEAD):
        table.add_column(name, justify="left" if index < 2 else "right", no_wrap=True)
    unit, factor = formats.unit_of(table_rows)
    for row in table_rows:
        table.add_row(*_cells(row, unit, factor))
    return table


def _cells(row: Row, unit: str, factor: float) -> list[str]:
    statuses = sorted({record["status"] for _, record in row.cells})
    if row.time is None:
        return [row.label, ", ".join(statuses), *[NOTHING] * (len(HEAD) - 2)]
    return [
        row.label,
        ", ".join(statuses),
        f"{formats.measured(row.time, factor)} {unit}{formats.doubtful(row)}",
        formats.processes(row),
        formats.ratio(row),
        str(Value(row.median("cache", "hit_rate"), "{:.1%}")),
        formats.mean(row.values("metrics", "test")),
        formats.memory(row.working_set()),
        NOTHING if row.first_call is None else f"{formats.first_call(row, factor)} {unit}",
    ]
