"""Published scores, from the suites that name them."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from harness.store.record import Record

SUITES = Path(__file__).resolve().parent.parent.parent / "conf" / "suite"


@dataclass(frozen=True)
class Published:
    """A number of a paper: its data set, model, metric, value and where it stands."""

    dataset: str
    model: str
    metric: str
    value: float
    source: str


def published_scores(folder: Path = SUITES) -> list[Published]:
    """Read what the suites say was published, each number once, sorted."""
    from omegaconf import OmegaConf

    scores = set()
    for path in sorted(folder.glob("*.yaml")):
        for values in OmegaConf.to_container(OmegaConf.load(path)).get("published") or []:  # type: ignore[union-attr]
            scores.add(Published(**values))
    return sorted(scores, key=lambda item: (item.dataset, item.model, item.metric, item.source))


def published_for(record: Record, scores: Iterable[Published]) -> Published | None:
    """The published number that a record's test score may stand beside, if there is one."""
    name = (record["config"]["dataset"]["name"], record["config"]["model"]["name"])
    metric = record.get("metrics", {}).get("name", "")
    return next((item for item in scores if (item.dataset, item.model) == name and item.metric == metric), None)
