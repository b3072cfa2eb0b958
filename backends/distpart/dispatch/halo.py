"""The nodes that a part needs of others, and the edges between them, which other parts own."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from backends.distpart.dispatch.buckets import EdgeBuckets, Share
from backends.distpart.dispatch.numbering import Numbering


@dataclass(eq=False)
class PartHalo:
    """HALO nodes of a part, as new ids ascending by hop, and a bit for each edge of other parts: whether it is far.

    Far edges are those to the HALO nodes of all hops but the last. ``bits`` are by part and piece, where there is one.
    """

    buckets: EdgeBuckets
    nodes: NDArray[np.int64]
    far_count: int = 0
    bits: dict[tuple[int, int], NDArray[np.uint8]] = field(default_factory=dict)

    @classmethod
    def of(cls, part: int, numbering: Numbering, buckets: EdgeBuckets, hops: int) -> "PartHalo":
        """Find the sources of the part's edges that it does not own, then those of the edges to them, hop by hop."""
        first, last = numbering.owned(part)
        known = np.zeros(len(numbering.parts), dtype=bool)
        for share in buckets.shares(part):
            known[share.sources] = True
        known[first:last] = False
        rings = [np.flatnonzero(known)]
        known[first:last] = True
        halo = cls(buckets, rings[0])
        while len(rings) < hops and len(rings[-1]):
            reached = halo._add_far_edges(rings[-1], numbering)
            rings.append(np.flatnonzero(reached & ~known))
            known |= reached
        if len(rings) > 1:
            halo.nodes = np.concatenate(rings)
        return halo

    def _add_far_edges(self, nodes: NDArray[np.int64], numbering: Numbering) -> NDArray[np.bool_]:
        """Mark the edges to ascending nodes of other parts; returns for each node whether it is a source of one."""
        wanted, reached = (np.zeros(len(numbering.parts), dtype=bool) for _ in range(2))
        wanted[nodes] = True
        counts = np.diff(np.searchsorted(nodes, numbering.bounds[:, -1]), prepend=0)
        for owner in np.flatnonzero(counts).tolist():
            for piece in self.buckets.pieces_with(owner):
                share = self.buckets.share(piece, owner)
                is_far = wanted[share.destinations]
                if not is_far.any():
                    continue
                bits = np.packbits(is_far)
                self.bits[owner, piece] = bits | self.bits.get((owner, piece), np.uint8(0))
                self.far_count += int(np.count_nonzero(is_far))
                reached[share.sources[is_far]] = True
        return reached

    def far_edges(self) -> Iterator[Share]:
        """The far edges in the order of their new ids, those of a piece at a time."""
        for owner, piece in sorted(self.bits):
            share = self.buckets.share(piece, owner)
            is_far = np.unpackbits(self.bits[owner, piece], count=len(share.rows))
            yield share.chosen(np.flatnonzero(is_far))
