"""Which records of a cell count today: the newest of each seed, of one environment."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from harness.store.files import by_age
from harness.store.record import Record, StoredRecord

Environments = Mapping[str, Mapping[str, Any]]


def current_records(
    records: Sequence[StoredRecord], environments: Environments
) -> tuple[list[StoredRecord], list[StoredRecord]]:
    """The newest record of every seed among those of the newest environment, and the others of that environment.

    A record without results does not hide good ones by its environment alone: a cell that ended early has loaded fewer
    modules. It counts beside them while nothing else tells the two apart. One that was interrupted hides no good one.
    """
    ordered = sorted(records, key=by_age)
    today = _deciding(ordered, environments)
    alike = [stored for stored in ordered if _counts_beside(stored[1], today, environments)]
    newest: dict[int, StoredRecord] = {}
    for stored in alike:
        seed = int(stored[1]["config"]["seed"])
        if stored[1]["status"] != "interrupted" or seed not in newest:
            newest[seed] = stored
    current = [newest[seed] for seed in sorted(newest)]
    return current, [stored for stored in alike if stored not in current]


def _deciding(ordered: Sequence[StoredRecord], environments: Environments) -> Record:
    """The record whose environment is today's: the newest, or a good one that a failure does not contradict."""
    good = [record for _, record in ordered if record["status"] == "ok"]
    told = [record for _, record in ordered if not good or record["status"] != "interrupted"]
    newest = told[-1]
    return good[-1] if good and _counts_beside(newest, good[-1], environments) else newest


def _counts_beside(record: Record, today: Record, environments: Environments) -> bool:
    """Whether a record may be pooled with today's; one without results, where no value or module contradicts that."""
    if record["status"] == "ok":
        return checked(record, environments) == checked(today, environments)
    values, modules = _parts(record, environments)
    values_today, modules_today = _parts(today, environments)
    shared = modules.keys() & modules_today.keys()
    return values == values_today and all(modules[name] == modules_today[name] for name in shared)


def checked(record: Record, environments: Environments) -> str:
    """The checked environment and the protocol as one text, which must be equal for two records to be pooled."""
    environment = environments.get(record["environment"], {})
    return json.dumps([record["protocol"], environment.get("checked", environment)], sort_keys=True)


def _parts(record: Record, environments: Environments) -> tuple[list[Any], Mapping[str, str]]:
    """Protocol and checked values, and the digest of each module, or of all where they are not listed."""
    environment = environments.get(record["environment"], {})
    values = environment.get("checked", environment)
    own = {name: value for name, value in values.items() if name != "sources"}
    if "modules" not in environment and "sources" in values:
        own["sources"] = values["sources"]
    return [record["protocol"], own], environment.get("modules", {})
