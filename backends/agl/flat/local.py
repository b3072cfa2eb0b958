"""GraphFlat in one process: the rounds over a memory-mapped graph, one batch of targets per thread at a time."""

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

import numpy as np

from backends.agl.flat.rounds import Edges, Ints, answer, propagate, without
from backends.agl.flat.source import Source
from backends.agl.flat.store import Flattened, Neighbourhoods, flatten
from backends.agl.flat.strategy import Strategy
from backends.kernels.neighbourhood import expansions

Done = TypeVar("Done")
BATCH = 256  # targets whose features fit a processor's cache together with their records


def neighbourhoods(source: Source, targets: Ints, strategy: Strategy) -> Neighbourhoods:
    """Run the K rounds for some targets; each gets a neighbourhood of its own."""
    count = source.graph.nodes
    fresh = np.arange(len(targets)) * count + targets
    seen, levels, edges = fresh, [fresh], []
    for limit in expansions(strategy.fanouts):
        edges.append(answer(fresh, targets, source.table, strategy, limit))
        fresh = without(propagate(edges[-1], count), seen)
        seen = np.sort(np.concatenate((seen, fresh)))
        levels.append(fresh)
    distance = np.repeat(np.arange(len(levels)), [len(level) for level in levels])
    return Neighbourhoods(len(targets), strategy.hops, np.concatenate(levels), distance, Edges.joined(edges))


def flattened(
    source: Source, targets: Ints, strategy: Strategy, *, embed: bool = True, threads: int = 1, batch: int = BATCH
) -> Iterator[Flattened]:
    """Yield batches of GraphFeatures in the order of ``targets``, the next ones under way in threads."""

    def one(start: int) -> Flattened:
        return flatten(neighbourhoods(source, targets[start : start + batch], strategy), source, embed=embed)

    yield from in_threads(one, range(0, len(targets), batch), threads)


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
