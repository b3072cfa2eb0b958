"""The suites as the reports read them, and the published scores that they name."""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path

from harness.planning.compose import CONF
from harness.planning.suite import Suite, read_suite
from harness.store.record import Record
from harness.usage import UsageError


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
    """All suites by name, read once: parsing their files takes seconds; raises UsageError that names a wrong file."""
    return tuple(_suite_in(file) for file in sorted((CONF / "suite").glob("*.yaml")))


def _suite_in(file: Path) -> Suite:
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException
    from yaml import YAMLError

    try:
        suite = read_suite(OmegaConf.to_container(OmegaConf.load(file)))
    except (YAMLError, OmegaConfBaseException, ValueError) as error:
        raise UsageError(f"{file}: {' '.join(str(error).split())}") from error
    keys = [field.name for field in fields(Published)]
    for number, row in enumerate(suite.published, 1):
        if set(row) != set(keys) or not isinstance(row["value"], int | float):
            allowed = f"give {', '.join(keys)}, of which value is a number"
            raise UsageError(f"{file}: row {number} of published is {row}: {allowed}")
    return suite


def published_scores() -> list[Published]:
    """The published numbers of all suites, each once, sorted."""
    scores = {Published(**values) for suite in suites() for values in suite.published}
    return sorted(scores, key=lambda score: (score.dataset, score.model, score.metric, score.source))


def published_for(record: Record, scores: Iterable[Published]) -> Published | None:
    """The published number for a record's data set, model and metric, if there is one."""
    name = (record["config"]["dataset"]["name"], record["config"]["model"]["name"])
    metric = record.get("metrics", {}).get("name", "")
    return next((score for score in scores if (score.dataset, score.model) == name and score.metric == metric), None)
