"""Headlines that were measured again on one machine: whether each run lies where the other said it would."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from harness.report.history import Headline, Measured
from harness.report.scopes import Scope


@dataclass(frozen=True)
class Repeat:
    """A headline in two runs, one after the other: the same cells, in as many processes, on one machine."""

    dataset: str
    title: str
    before: Measured
    after: Measured

    @property
    def scope(self) -> Scope:
        """Machine and protocol."""
        return self.after.scope

    @property
    def same_code(self) -> bool:
        """Whether all that are ours or the peer in one of the runs ran the same code and packages in both."""
        cells = self.before.ranked | self.after.ranked
        return all(self.before.versions[cell] == self.after.versions[cell] for cell in cells)

    @property
    def agrees(self) -> bool:
        """Whether the factor of either run lies in the other's interval of a second run."""
        return _predicts(self.before, self.after) and _predicts(self.after, self.before)


def repeats(headlines: Iterable[Headline]) -> list[Repeat]:
    """Each sound point with the sound one before it; ``headlines`` have a point per run."""
    pairs = []
    for headline in headlines:
        lines: dict[tuple[Scope, int, frozenset[str]], list[Measured]] = {}
        for point in (point for point in headline.points if not point.doubts):
            lines.setdefault((point.scope, point.factor.n, frozenset(point.versions)), []).append(point)
        for points in lines.values():
            pairs += [Repeat(headline.dataset, headline.title, *pair) for pair in pairwise(points)]
    return pairs


def _predicts(one: Measured, other: Measured) -> bool:
    return one.factor.again is not None and one.factor.again[0] <= other.factor.median <= one.factor.again[1]
