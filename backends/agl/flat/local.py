"""GraphFlat in one process: the rounds over a memory-mapped graph, one batch of targets per thread at a time."""

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, islice
from typing import TypeVar

import numpy as np

from backends.agl.flat.rounds import Edges, Ints, answer, propagate, without
from backends.agl.flat.source import Source
from backends.agl.flat.store import Flattened, Neighbourhoods, flatten
from backends.agl.flat.strategy import Strategy
from backends.kernels.neighbourhood import expansions

Done = TypeVar("Done")
BATCH = 256  # targets whose features fit a processor's cache together with their records
MOST_BYTES = 256 << 20  # of a batch's records
BYTES_OF_EDGE = 64  # with what is known of its source, but features


class TooLarge(Exception):
    """Neighbourhoods of several targets that would take more than ``MOST_BYTES``."""


def bytes_of(edges: int, source: Source) -> int:
    """About what records of so many edges take, at most."""
    return edges * (BYTES_OF_EDGE + 4 * source.graph.width)


def neighbourhoods(source: Source, targets: Ints, strategy: Strategy) -> Neighbourhoods:
    """Run the K rounds for some targets; each gets a neighbourhood of its own. Raises TooLarge for several of them."""
    count, coming = source.graph.nodes, 0
    fresh = np.arange(len(targets)) * count + targets
    seen, levels, edges = fresh, [fresh], []
    for limit in expansions(strategy.fanouts):
        coming += len(fresh) * limit if limit is not None else _in_degrees(source, fresh % count)
        if len(targets) > 1 and bytes_of(coming, source) > MOST_BYTES:
            raise TooLarge
        edges.append(answer(fresh, targets, source.table, strategy, limit))
        fresh = without(propagate(edges[-1], count), seen)
        seen = np.sort(np.concatenate((seen, fresh)))
        levels.append(fresh)
    distance = np.repeat(np.arange(len(levels)), [len(level) for level in levels])
    return Neighbourhoods(len(targets), strategy.hops, np.concatenate(levels), distance, Edges.joined(edges))


def _in_degrees(source: Source, nodes: Ints) -> int:
    """Edges that a filter leaves of the in-edges of some nodes, together."""
    indptr = source.table.csr.indptr
    return int((indptr[nodes + 1] - indptr[nodes]).sum(dtype=np.int64))


def bounded(source: Source, targets: Ints, strategy: Strategy) -> Iterator[Neighbourhoods]:
    """Yield the neighbourhoods of some targets in their order, together or in halves that are not too large."""
    try:
        found = neighbourhoods(source, targets, strategy)
    except TooLarge:
        for half in np.array_split(targets, 2):
            yield from bounded(source, half, strategy)
    else:
        yield found


def flattened(
    source: Source, targets: Ints, strategy: Strategy, *, embed: bool = True, threads: int = 1, batch: int = BATCH
) -> Iterator[Flattened]:
    """Yield batches of GraphFeatures in the order of ``targets``, the next ones under way in threads."""

    def some(start: int) -> Iterator[Flattened]:
        for found in bounded(source, targets[start : start + batch], strategy):
            yield flatten(found, source, embed=embed)

    starts = range(0, len(targets), batch)
    done = map(some, starts) if threads == 1 else in_threads(lambda start: list(some(start)), starts, threads)
    yield from chain.from_iterable(done)


def in_threads(work: Callable[[int], Done], numbers: range, threads: int) -> Iterator[Done]:
    """Yield ``work`` of each number in order, as many under way as there are threads; none starts after a failure."""
    if threads == 1:
        yield from map(work, numbers)
        return
    left = iter(numbers)
    with ThreadPoolExecutor(threads, thread_name_prefix="flatten") as pool:
        ahead = deque(pool.submit(work, number) for number in islice(left, threads))
        while ahead:
            done = ahead.popleft().result()
            ahead.extend(pool.submit(work, number) for number in islice(left, 1))
            yield done
