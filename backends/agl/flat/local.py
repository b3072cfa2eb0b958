"""GraphFlat in one process: the rounds over a memory-mapped graph, one batch of targets per thread at a time."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice

import numpy as np

from backends.agl.flat.rounds import Edges, Ints, answer, propagate, without
from backends.agl.flat.source import Source
from backends.agl.flat.store import Flattened, Neighbourhoods, flatten
from backends.agl.flat.strategy import Strategy
from backends.kernels.neighbourhood import expansions

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

    starts = iter(range(0, len(targets), batch))
    if threads == 1:
        yield from map(one, starts)
        return
    with ThreadPoolExecutor(threads, thread_name_prefix="flatten") as pool:
        ahead: list[Future[Flattened]] = [pool.submit(one, start) for start in islice(starts, threads)]
        while ahead:
            yield ahead.pop(0).result()
            ahead += [pool.submit(one, start) for start in islice(starts, 1)]
