"""GraphFlat in one process: K rounds over a memory-mapped graph per batch of targets, batches in threads."""

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, islice
from typing import TypeVar

import numpy as np

from backends.agl.flat.rounds import Ints, RequestedEdges, answer_requests, drop_seen, next_requests
from backends.agl.flat.sampling_strategy import SamplingStrategy
from backends.agl.flat.source import Source
from backends.agl.flat.store import EncodedBatch, TargetNeighbourhoods, encode_neighbourhoods
from backends.kernels.neighbourhood import expansions

Result = TypeVar("Result")
BATCH = 256  # targets; their features and records fit a processor's cache
MOST_BYTES = 256 << 20  # of a batch's records
BYTES_PER_EDGE = 64  # an edge and its source node without features


class TooLarge(Exception):
    """Neighbourhoods of several targets that would take more than ``MOST_BYTES``."""


def bytes_of(edges: int, source: Source) -> int:
    """Bytes of records with ``edges`` edges: at most these with dense features, about these with sparse ones."""
    features = source.graph.features
    bytes_per_node = 0 if features is None else -(-features.nbytes // max(len(features), 1))
    return edges * (BYTES_PER_EDGE + bytes_per_node)


def neighbourhoods(source: Source, targets: Ints, strategy: SamplingStrategy) -> TargetNeighbourhoods:
    """Search the neighbourhood of each target in K rounds; raises TooLarge for several targets over ``MOST_BYTES``."""
    count, edge_bound = source.graph.nodes, 0
    fresh = np.arange(len(targets)) * count + targets
    seen, levels, edges = fresh, [fresh], []
    for limit in expansions(strategy.fanouts):
        edge_bound += _edge_bound(source, fresh % count, limit, strategy.replacement)
        if len(targets) > 1 and bytes_of(edge_bound, source) > MOST_BYTES:
            raise TooLarge
        edges.append(answer_requests(fresh, targets, source.table, strategy, limit))
        fresh = drop_seen(next_requests(edges[-1], count), seen)
        seen = np.sort(np.concatenate((seen, fresh)))
        levels.append(fresh)
    distance = np.repeat(np.arange(len(levels)), [len(level) for level in levels])
    return TargetNeighbourhoods(
        len(targets), strategy.hops, np.concatenate(levels), distance, RequestedEdges.concatenate(edges)
    )


def _edge_bound(source: Source, nodes: Ints, limit: int | None, replacement: bool) -> int:
    """Most edges that are sampled of some nodes: without replacement those that pass the filter, up to ``limit``."""
    if replacement and limit is not None:
        return len(nodes) * limit
    indptr = source.table.csr.indptr
    degrees = indptr[nodes + 1] - indptr[nodes]
    return int((degrees if limit is None else np.minimum(degrees, limit)).sum(dtype=np.int64))


def neighbourhoods_within_memory(
    source: Source, targets: Ints, strategy: SamplingStrategy
) -> Iterator[TargetNeighbourhoods]:
    """Yield the neighbourhoods of some targets in order, halving the batch while it is too large for memory."""
    try:
        batch = neighbourhoods(source, targets, strategy)
    except TooLarge:
        for half in np.array_split(targets, 2):
            yield from neighbourhoods_within_memory(source, half, strategy)
    else:
        yield batch


def flatten_batches(
    source: Source,
    targets: Ints,
    strategy: SamplingStrategy,
    *,
    embed: bool = True,
    threads: int = 1,
    batch: int = BATCH,
) -> Iterator[EncodedBatch]:
    """Yield batches of GraphFeatures in the order of ``targets``; ``threads`` batches are computed ahead."""

    def encoded(start: int) -> Iterator[EncodedBatch]:
        for part in neighbourhoods_within_memory(source, targets[start : start + batch], strategy):
            yield encode_neighbourhoods(part, source, embed=embed)

    starts = range(0, len(targets), batch)
    batches = map(encoded, starts) if threads == 1 else in_threads(lambda start: list(encoded(start)), starts, threads)
    yield from chain.from_iterable(batches)


def in_threads(work: Callable[[int], Result], numbers: range, threads: int) -> Iterator[Result]:
    """Yield ``work(number)`` in order, computed by ``threads`` threads; after a failure no more are started."""
    if threads == 1:
        yield from map(work, numbers)
        return
    remaining = iter(numbers)
    with ThreadPoolExecutor(threads, thread_name_prefix="flatten") as pool:
        running = deque(pool.submit(work, number) for number in islice(remaining, threads))
        while running:
            result = running.popleft().result()
            running.extend(pool.submit(work, number) for number in islice(remaining, 1))
            yield result
