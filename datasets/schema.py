"""Names of node types and of relations between them: what makes a graph a typed one."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

NODE_TYPE, EDGE_TYPE = "_N", "_E"  # DGL's names of the only types of a graph without any


class Relation(NamedTuple):
    """A type of edges: a name and the node types of its two ends; as text ``source:name:destination``."""

    source: str
    name: str
    destination: str

    def __str__(self) -> str:
        return ":".join(self)

    @classmethod
    def parse(cls, text: str) -> "Relation":
        """Split ``source:name:destination``; raises ValueError for anything else."""
        names = text.split(":")
        if len(names) != 3 or not all(names):
            raise ValueError(f"edge type {text!r} is not of the form source:name:destination")
        return cls(*names)


@dataclass(frozen=True)
class Schema:
    """Node types, whose nodes have contiguous ids in this order, and relations, numbered as ``edge_types`` are."""

    node_types: tuple[str, ...]
    relations: tuple[Relation, ...]

    def __post_init__(self) -> None:
        """Raise ValueError for repeated names and for relations between types that are not there."""
        for what, names in (("node type", self.node_types), ("relation", self.relations)):
            repeated = {name for name in names if list(names).count(name) > 1}
            if repeated:
                raise ValueError(f"{what} {min(map(str, repeated))} is named twice: names must differ")
        for relation in self.relations:
            for end in (relation.source, relation.destination):
                if end not in self.node_types:
                    raise ValueError(
                        f"relation {relation} names node type {end}: there are {', '.join(self.node_types)}"
                    )

    def as_json(self) -> dict[str, Any]:
        """The names as lists."""
        return {"node_types": list(self.node_types), "relations": [str(relation) for relation in self.relations]}

    @classmethod
    def from_json(cls, names: Mapping[str, Any]) -> "Schema":
        """What ``as_json`` returned."""
        return cls(tuple(names["node_types"]), tuple(Relation.parse(text) for text in names["relations"]))


HOMOGENEOUS = Schema((NODE_TYPE,), (Relation(NODE_TYPE, EDGE_TYPE, NODE_TYPE),))
