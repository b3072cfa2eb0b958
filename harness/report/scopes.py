"""Scopes of records: numbers are averaged and compared inside one machine and one protocol only."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from harness.report.content import Block, Section
from harness.store.record import Record, StoredRecord


@dataclass(frozen=True, order=True)
class Scope:
    """The machine and the protocol of a record."""

    machine: str
    protocol: int

    @property
    def title(self) -> str:
        """Machine and protocol in words."""
        return f"{self.machine}, protocol {self.protocol}"


class Scoped(Protocol):
    """Content of a page that belongs to one scope."""

    @property
    def scope(self) -> Scope:
        """Its machine and protocol."""
        ...


S = TypeVar("S", bound=Scoped)


def scope_of(results: Path, path: Path, record: Record) -> Scope:
    """The scope of a record, its machine by its place in the results folder."""
    return Scope(path.relative_to(results).parts[0], int(record["protocol"]))


def newest_protocol(records: Iterable[StoredRecord]) -> int:
    """The newest protocol with a good record; the newest of all where no record is good."""
    pairs = [(record["status"] == "ok", int(record["protocol"])) for _, record in records]
    return max(pairs)[1]


def by_scope(items: Iterable[S]) -> dict[Scope, list[S]]:
    """Part content by machine and protocol."""
    parted: dict[Scope, list[S]] = {}
    for item in sorted(items, key=lambda item: item.scope):
        parted.setdefault(item.scope, []).append(item)
    return parted


def one_scope(items: Sequence[S]) -> Sequence[S]:
    """Return content that a mean may be formed over; raises ValueError where it is of several scopes."""
    scopes = [scope.title for scope in by_scope(items)]
    if len(scopes) > 1:
        raise ValueError(f"one mean over {'; '.join(scopes)}: form one for each machine and protocol")
    return items


def on_each_machine(items: Sequence[S], content: Callable[[Sequence[S], str], Sequence[Block]]) -> list[Block]:
    """Content of each scope, under its machine's name where there are several.

    ``content`` also gets a suffix for the names of its figures, which is empty where there is one machine.
    """
    scopes = by_scope(items)
    if len(scopes) < 2:
        return list(content(items, ""))
    parts = ((scope, content(part, f"-{scope.machine}")) for scope, part in scopes.items())
    return [Section(f"On {scope.machine}", blocks) for scope, blocks in parts if blocks]


def machines_of(items: Iterable[S]) -> str:
    """Names of the machines, for a sentence."""
    names = sorted({item.scope.machine for item in items})
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]])) or "no machine"
