"""Published scores, from the suites that name them."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from harness.store.record import Record

SUITES = Path(__file__).resolve().parent.parent.parent / "conf" / "suite"


@dataclass(frozen=True)
class Published:
    """A published number: its data set, model, metric, value and the place in the paper."""

    dataset: str
    model: str
    metric: str
    value: float
    source: str


def published_scores(folder: Path = SUITES) -> list[Published]:
    """Read the published numbers of all suites, each once, sorted."""
    from omegaconf import OmegaConf

    scores = set()
    for path in sorted(folder.glob("*.yaml")):
        for values in OmegaConf.to_container(OmegaConf.load(path)).get("published") or []:  # type: ignore[union-attr]
            scores.add(Published(**values))
    return sorted(scores, key=lambda score: (score.dataset, score.model, score.metric, score.source))


def published_for(record: Record, scores: Iterable[Published]) -> Published | None:
    """The published number for a record's data set, model and metric, if there is one."""
    name = (record["config"]["dataset"]["name"], record["config"]["model"]["name"])
    metric = record.get("metrics", {}).get("name", "")
    return next((score for score in scores if (score.dataset, score.model) == name and score.metric == metric), None)
