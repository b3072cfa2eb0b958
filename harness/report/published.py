"""The suites as the reports read them, and the published scores that they name."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from harness.planning.compose import CONF
from harness.planning.suite import Suite, read_suite
from harness.store.record import Record


@dataclass(frozen=True)
class Published:
    """A published number: its data set, model, metric, value and the place in the paper."""

    dataset: str
    model: str
    metric: str
    value: float
    source: str


@cache
def suites() -> tuple[Suite, ...]:
    """All suites by name, read once: parsing their files takes seconds."""
    from omegaconf import OmegaConf

    files = sorted((CONF / "suite").glob("*.yaml"))
    return tuple(read_suite(OmegaConf.to_container(OmegaConf.load(file))) for file in files)


def published_scores() -> list[Published]:
    """The published numbers of all suites, each once, sorted."""
    scores = {Published(**values) for suite in suites() for values in suite.published}
    return sorted(scores, key=lambda score: (score.dataset, score.model, score.metric, score.source))


def published_for(record: Record, scores: Iterable[Published]) -> Published | None:
    """The published number for a record's data set, model and metric, if there is one."""
    name = (record["config"]["dataset"]["name"], record["config"]["model"]["name"])
    metric = record.get("metrics", {}).get("name", "")
    return next((score for score in scores if (score.dataset, score.model) == name and score.metric == metric), None)
