"""Generator ``lookalike_mag``: authors, papers, fields and institutions with the counts of OGBN-MAG."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from datasets.csr import csr_from_edges
from datasets.graph import MISSING, NO_SPLIT, SPLITS, Graph
from datasets.options import options_from
from datasets.randomness import hash_ids, permutation, uniform
from datasets.schema import Relation, Schema
from datasets.synthetic.content_hash import with_content_hash
from datasets.synthetic.distributions import noise, power_law

NODES = {"author": 1_134_649, "field_of_study": 59_965, "institution": 8_740, "paper": 736_389}
EDGES = {
    ("author", "affiliated_with", "institution"): 1_043_998,
    ("author", "writes", "paper"): 7_145_660,
    ("paper", "cites", "paper"): 5_416_271,
    ("paper", "has_topic", "field_of_study"): 7_505_078,
}
# the order of the relations in the guide's schema; rev- turns the edges of another one around
ORDER = ("affiliated_with", "writes", "rev-has_topic", "rev-affiliated_with")
ORDER += ("cites", "has_topic", "rev-cites", "rev-writes")
VENUES, SPLIT = 349, (629_571, 64_879, 41_939)
# assumptions: the share of edges inside of a community, and the tail of degrees
INSIDE, TAIL, HUB, PURITY = 0.7, 2.2, 2_000.0, 0.85
_SMALLEST = 0.002


@dataclass(frozen=True)
class MagOptions:
    """``scale`` is the share of OGBN-MAG's nodes and edges; ``features`` per node, none by default."""

    scale: float = 0.05
    features: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        if not _SMALLEST <= self.scale <= 1 or self.features < 0:
            raise ValueError(
                f"lookalike_mag with scale={self.scale:g}, features={self.features}: allowed are scales from "
                f"{_SMALLEST:g} to 1 and no negative number of features"
            )


def load(name: str, options: dict[str, Any]) -> Graph:
    """Generate the typed graph; ids are permuted within their type, papers are labelled with venues and split."""
    mag = options_from(MagOptions, name, options)
    counts = {kind: round(count * mag.scale) for kind, count in NODES.items()}
    layouts = {kind: _Layout.of(kind, count, mag) for kind, count in counts.items()}
    pairs = {relation[1]: _pairs(layouts, relation, round(count * mag.scale), mag) for relation, count in EDGES.items()}
    ends = {name: (relation[0], relation[2]) for relation in EDGES for name in [relation[1]]}
    starts = dict(zip(counts, np.cumsum([0, *counts.values()]).tolist(), strict=False))
    relations, sources, destinations, kinds = [], [], [], []
    for number, title in enumerate(ORDER):
        base, reverse = title.removeprefix("rev-"), title.startswith("rev-")
        source, destination = ends[base][::-1] if reverse else ends[base]
        first, second = pairs[base][::-1] if reverse else pairs[base]
        relations.append(Relation(source, title, destination))
        sources.append(first + starts[source])
        destinations.append(second + starts[destination])
        kinds.append(np.full(len(first), number, dtype=np.int32))
    total = sum(counts.values())
    csr = csr_from_edges(np.concatenate(sources), np.concatenate(destinations), (total, total))
    labels, split = _labels(layouts["paper"], starts["paper"], total, mag.seed)
    schema = Schema(tuple(counts), tuple(relations))
    graph = Graph(
        name=name,
        csr=csr,
        features=None if not mag.features else noise(mag.seed, "mag feature", np.arange(total), mag.features),
        labels=labels,
        split=split,
        classes=VENUES,
        task="multiclass",
        node_types=np.repeat(np.arange(len(counts), dtype=np.int32), list(counts.values())),
        edge_types=np.concatenate(kinds)[csr.ids],
        schema=schema,
        synthetic=True,
        published={"nodes": sum(NODES.values()), "edges": 2 * sum(EDGES.values())},
        notes=(
            "synthetic: counts by type of OGBN-MAG, communities and skew are assumed; no edges are parallel, no paper "
            "cites itself",
        ),
    )
    return with_content_hash(replace(graph, published=graph.published if mag.scale == 1 else {}))


@dataclass(frozen=True)
class _Layout:
    """Positions of a type's nodes by community, weights of their degrees summed up, and the id of each position."""

    bounds: NDArray[np.int64]  # [communities + 1]
    cumulative: NDArray[np.float64]  # [nodes + 1]
    ids: NDArray[np.int64]

    @classmethod
    def of(cls, kind: str, count: int, mag: MagOptions) -> "_Layout":
        bounds = np.arange(VENUES + 1) * count // VENUES
        hub = min(HUB, max(2.0, count / 4))
        weights = power_law(uniform(mag.seed, f"mag weight {kind}", np.arange(count)), TAIL, 1.0, hub)
        cumulative = np.concatenate(([0.0], np.cumsum(weights)))
        return cls(bounds, cumulative, permutation(mag.seed, f"mag id {kind}", count))

    def pick(self, first: NDArray[np.int64], last: NDArray[np.int64], u: NDArray[np.float64]) -> NDArray[np.int64]:
        """Positions in [first, last), by weight."""
        target = self.cumulative[first] + (1 - u) * (self.cumulative[last] - self.cumulative[first])
        return np.clip(np.searchsorted(self.cumulative, target, side="right") - 1, first, last - 1)


def _pairs(
    layouts: dict[str, _Layout], relation: tuple[str, str, str], count: int, mag: MagOptions
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Draw ``count`` distinct pairs of ids, most of them inside of a community."""
    source, name, destination = (layouts[relation[0]], relation[1], layouts[relation[2]])
    width = len(destination.ids)
    keys, drawn = np.empty(0, dtype=np.int64), 0
    while len(keys) < count:
        ids = np.arange(drawn, drawn + (count - len(keys)) * 5 // 4 + 64)
        drawn = int(ids[-1]) + 1
        whole = np.zeros(len(ids), dtype=np.int64)
        from_ = source.pick(whole, whole + len(source.ids), uniform(mag.seed, f"mag {name} source", ids))
        community = np.searchsorted(source.bounds, from_, side="right") - 1
        inside = uniform(mag.seed, f"mag {name} inside", ids) <= INSIDE
        inside &= destination.bounds[community + 1] > destination.bounds[community]
        first = np.where(inside, destination.bounds[community], 0)
        last = np.where(inside, destination.bounds[community + 1], width)
        to = destination.pick(first, last, uniform(mag.seed, f"mag {name} destination", ids))
        keep = (from_ != to) | (relation[0] != relation[2])
        fresh = source.ids[from_[keep]] * width + destination.ids[to[keep]]
        fresh = np.setdiff1d(fresh, keys)
        if len(fresh) > count - len(keys):
            fresh = fresh[np.argsort(hash_ids(mag.seed, f"mag {name} kept", fresh))[: count - len(keys)]]
        keys = np.concatenate([keys, fresh])
    keys = keys[np.argsort(hash_ids(mag.seed, f"mag {name} order", keys))]
    return keys // width, keys % width


def _labels(papers: _Layout, start: int, total: int, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int8]]:
    """Venues of papers, mostly that of their community, and splits in the published shares; other types have none."""
    labels, split = np.full(total, MISSING, dtype=np.int64), np.full(total, NO_SPLIT, dtype=np.int8)
    positions = np.arange(len(papers.ids))
    common = np.searchsorted(papers.bounds, positions, side="right") - 1
    other = (hash_ids(seed, "mag other venue", positions) % np.uint64(VENUES)).astype(np.int64)
    labels[start + papers.ids] = np.where(uniform(seed, "mag purity", positions) <= PURITY, common, other)
    bounds = np.cumsum(SPLIT) / sum(SPLIT)
    place = np.searchsorted(bounds[:-1], uniform(seed, "mag split", positions)).astype(np.int8)
    split[start + papers.ids] = place + np.int8(SPLITS["train"])
    return labels, split
