"""How many times as fast a call is in its best order as in the given and in a random one."""

from collections.abc import Callable

from harness.report.content import NOTHING
from harness.report.rows import Row
from harness.report.suites.records import SuiteRecords, at_its_best, fastest_peer, seconds

Choice = Callable[[list[Row]], Row | None]


def gain(records: SuiteRecords) -> str:
    """The range over data sets, for ours; seconds of different groups, so that a few percent mean nothing."""
    return _range(records, at_its_best)


def gain_of_peers(records: SuiteRecords) -> str:
    """The same for the fastest peer."""
    return _range(records, fastest_peer)


def _range(records: SuiteRecords, choose: Choice) -> str:
    by_task: dict[str, dict[str, float]] = {}
    for _, comparison in records.comparisons():
        row = choose(comparison.rows)
        if row is None or row.time is None:
            continue
        config = row.record["config"]
        dataset, model = config["dataset"], config["model"]
        task = f"{dataset['name']} {dataset.get('options')} {model['name']} {model['hidden']}"
        by_task.setdefault(task, {})[config.get("order", {}).get("name", "none")] = seconds(row)
    parts = []
    for base in ("none", "random"):
        factors = [times[base] / min(times.values()) for times in by_task.values() if base in times and len(times) > 1]
        if factors:
            parts.append(f"{min(factors):.2g} to {max(factors):.2g} times (order {base})")
    return ", ".join(parts) or NOTHING
