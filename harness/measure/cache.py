"""Set-associative LRU model of the caches under an SpMM's gathers, with the machine's own sizes.

The model follows the gathered feature rows only: ``for row, for edge of row: read the source's row`` of a dense
[columns, width] matrix that starts at a line boundary, every line that the row's bytes touch; where a kernel gathers
rows in another order, in that one. Left out are the streams (indptr, indices, weights, output), which a prefetcher
serves and nobody reads twice, and prefetching itself. Every SpMM starts with cold caches, because the dense kernels
between two SpMMs stream through them, and has the last level alone.
"""

from dataclasses import dataclass, replace
from math import gcd
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from datasets.csr import index_dtype
from datasets.randomness import uniform

Lines = NDArray[np.integer]

SYSTEM = Path("/sys/devices/system/cpu/cpu0/cache")
BLOCKS = 8  # runs of rows in a sample: each long against any cache, yet spread over the graph
EDGES = 1 << 22  # that are counted at once
PARTS = 16  # sets are independent of one another, so a level is simulated in parts that keep memory small


@dataclass(frozen=True)
class Cache:
    """One level: its size in bytes, its ways and the bytes of a line."""

    name: str
    bytes: int
    ways: int
    line: int

    @property
    def sets(self) -> int:
        """Number of sets, at least one."""
        return max(1, self.bytes // (self.ways * self.line))

    def part(self, parts: int) -> "Cache":
        """One of ``parts`` equal shares of the sets."""
        return replace(self, bytes=self.sets // parts * self.ways * self.line)


# Where a virtual machine hides its caches: one core's L1d and L2 and a socket's L3 of common servers.
ASSUMED = (Cache("L1d", 48 << 10, 12, 64), Cache("L2", 1 << 20, 16, 64), Cache("L3", 32 << 20, 16, 64))


def machine_caches(folder: Path = SYSTEM) -> tuple[tuple[Cache, ...], str]:
    """Return the data caches of CPU 0, nearest first, and where they come from: ``"sysfs"`` or ``"assumed"``.

    ``ASSUMED`` stands in where the kernel gives no caches, no L1, or no number of ways.
    """
    levels = []
    for index in sorted(folder.glob("index*")):
        try:
            level, kind, size, ways, line = (
                (index / name).read_text().strip()
                for name in ("level", "type", "size", "ways_of_associativity", "coherency_line_size")
            )
            if kind != "Instruction":
                name = f"L{level}d" if kind == "Data" else f"L{level}"
                levels.append((int(level), Cache(name, _bytes(size), int(ways), int(line))))
        except (OSError, ValueError):
            return ASSUMED, "assumed"
    caches = tuple(cache for _, cache in sorted(levels, key=lambda item: item[0]))
    complete = any(level == 1 for level, _ in levels) and all(min(one.bytes, one.ways, one.line) > 0 for one in caches)
    return (caches, "sysfs") if complete else (ASSUMED, "assumed")


def _bytes(text: str) -> int:
    unit = {"K": 10, "M": 20, "G": 30}.get(text[-1:])
    return int(text) if unit is None else int(text[:-1]) << unit


def lru_misses(lines: Lines, cache: Cache) -> Lines:
    """Return the accesses that miss in a set-associative LRU cache, in order; ``lines`` are line numbers in order.

    Exact, one pass per way: with accesses sorted by set, way k of a set contains, when an access reaches it, the line
    that the previous access to reach it pushed out of way k - 1. Accesses that match are hits and go no further. The
    first access of a set is compared with a line of the set before, which never matches, as lines belong to one set.
    """
    missed = np.zeros(len(lines), dtype=bool)
    parts = PARTS if cache.sets % PARTS == 0 else 1
    for part in range(parts):
        chosen = np.flatnonzero(lines % parts == part) if parts > 1 else np.arange(len(lines))
        sets = (lines[chosen] % cache.sets) // parts
        chosen = chosen[np.argsort(sets.astype(_narrow(cache.sets)), kind="stable")]
        missed[_missing(lines[chosen], chosen, cache.ways)] = True
    return lines[missed]


def _narrow(count: int) -> type[np.unsignedinteger]:
    return np.uint16 if count <= 1 << 16 else np.uint32  # 16 bits are sorted by radix, five times as fast


def _missing(lines: Lines, positions: Lines, ways: int) -> Lines:
    pushed = lines
    for _ in range(ways):
        cached = np.empty_like(pushed)
        cached[:1] = -1
        cached[1:] = pushed[:-1]
        missing = lines != cached
        lines, pushed, positions = lines[missing], cached[missing], positions[missing]
    return positions


def touched_lines(sources: Lines, row_bytes: int, line: int) -> Lines:
    """List the lines that gathering ``sources`` reads, in order; narrow rows share lines, wide ones span several."""
    starts = sources.astype(np.int64) * row_bytes
    first = starts // line
    spans = (starts + (row_bytes - 1)) // line - first + 1
    ends = np.cumsum(spans)
    total = int(ends[-1]) if len(ends) else 0
    return np.repeat(first - (ends - spans), spans) + np.arange(total)


def sampled_gathers(rows: Lines, fraction: float, seed: int) -> Lines:
    """Return all gathered rows or, below a fraction of 1, ``BLOCKS`` seeded runs of consecutive ones, in their order.

    Each run lies in a stratum of its own (equal shares of the gathers), so runs ascend and never overlap.
    """
    if fraction >= 1.0:
        return rows
    strata = np.linspace(0, len(rows), BLOCKS + 1)
    length = strata[1] * fraction
    begins = strata[:-1] + uniform(seed, "cache rows", np.arange(BLOCKS)) * (strata[1] - length)
    runs = zip(begins.astype(np.int64), np.ceil(begins + length).astype(np.int64), strict=True)
    return np.concatenate([rows[begin:end] for begin, end in runs])


@dataclass(frozen=True)
class _Gather:
    """The gathers of one SpMM, ``rows`` of a ``table``; of its lines one of ``fold`` residue classes is simulated."""

    name: str
    rows: Lines
    table: int
    count: int
    row_bytes: int
    fold: int
    line: int

    @property
    def accesses(self) -> int:
        """Line accesses of the class."""
        starts = np.arange(self.table, dtype=np.int64) * self.row_bytes
        spans = (starts + (self.row_bytes - 1)) // self.line - starts // self.line + 1
        blocks = (self.rows[begin : begin + EDGES] for begin in range(0, len(self.rows), EDGES))
        return sum(int(spans[block].sum()) for block in blocks)

    def reaching(self, fraction: float, caches: tuple[Cache, ...], seed: int) -> list[int]:
        """Accesses of the class, or of a fraction of it, that reach each level and, last, the DRAM."""
        lines = touched_lines(sampled_gathers(self.rows, fraction, seed), self.row_bytes, self.line)
        lines = lines.astype(index_dtype(self.table * self.row_bytes // self.line + 1))
        counts = [len(lines)]
        for cache in caches:
            lines = lru_misses(lines, cache.part(self.fold))
            counts.append(len(lines))
        return counts


def _gather(product: dict[str, Any], caches: tuple[Cache, ...]) -> _Gather:
    """Reduce an SpMM to one residue class of its lines, exactly.

    With rows of L whole lines and g = gcd(L, sets of every level), lines of different residues modulo g never share a
    set, and all g classes of them see the same sequence of rows: the hits of one are the hits of each.
    """
    line, row_bytes = caches[0].line, product["width"] * product["itemsize"]
    fold = 1 if row_bytes % line else gcd(row_bytes // line, *(cache.sets for cache in caches))
    csr, row_bytes = product["csr"], row_bytes // fold
    rows = product.get("order", csr.indices)
    return _Gather(product["name"], rows, csr.shape[1], product["count"], row_bytes, fold, line)


def simulate(
    spmm: list[dict[str, Any]], accesses: int, caches: tuple[Cache, ...] | None = None, seed: int = 0
) -> dict[str, Any]:
    """Model the caches under the gathers of a list of SpMMs; rows are sampled beyond ``accesses`` simulated accesses.

    Each item has ``name``, ``csr``, ``width`` and ``itemsize`` of the dense operand, and ``count``, how often it ran;
    ``order``, the gathered rows one after the other, where that is not the order of the edges.
    ``levels`` holds the line accesses and hits of everything that ran, scaled up from the sample. ``hit_rate`` is the
    share of line accesses that DRAM did not serve, ``None`` when nothing was gathered; ``sampled`` the share of line
    accesses simulated. Lines are those of the first level.
    """
    levels, source = (caches, "given") if caches is not None else machine_caches()
    gathers = [_gather(product, levels) for product in spmm]
    totals = [gather.accesses for gather in gathers]
    fraction = min(1.0, accesses / max(1, sum(totals)))
    reach = np.array([gather.reaching(fraction, levels, seed) for gather in gathers]).reshape(-1, len(levels) + 1)
    lines = reach * np.array([[gather.fold] for gather in gathers]).reshape(-1, 1)
    total = sum(count * gather.fold for count, gather in zip(totals, gathers, strict=True))
    scale = [gather.count * count / max(1, row[0]) for gather, count, row in zip(gathers, totals, reach, strict=True)]
    ran = [round(value) for value in (lines * np.array(scale).reshape(-1, 1)).sum(axis=0).tolist()]
    return {
        "model": "set-associative LRU",
        "caches": source,
        "levels": [_level(cache, *ran[depth : depth + 2]) for depth, cache in enumerate(levels)],
        "hit_rate": _share(ran[0] - ran[-1], ran[0]),
        "per_spmm": [
            {"name": gather.name, "accesses": count * gather.fold, "hit_rate": _share(row[0] - row[-1], row[0])}
            for gather, count, row in zip(gathers, totals, reach.tolist(), strict=True)
        ],
        "sampled": 1.0 if fraction >= 1.0 else float(lines[:, 0].sum() / total),
    }


def _level(cache: Cache, reaching: int, passing: int) -> dict[str, Any]:
    sizes = {"name": cache.name, "bytes": cache.bytes, "ways": cache.ways, "line": cache.line}
    hits = reaching - passing
    return sizes | {"accesses": reaching, "hits": hits, "hit_rate": _share(hits, reaching)}


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None
