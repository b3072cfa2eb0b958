"""Every suite's file names sections and measures that exist."""

from pathlib import Path

import pytest
from omegaconf import OmegaConf

from harness.planning.compose import CONF
from harness.planning.suite import read_suite
from harness.report.suites.registry import _modules, measures, section_of
from harness.usage import UsageError


@pytest.mark.parametrize("path", sorted((CONF / "suite").glob("*.yaml")), ids=lambda path: path.stem)
def test_a_suite_names_sections_and_measures_that_exist(path: Path) -> None:
    suite = read_suite(OmegaConf.to_container(OmegaConf.load(path)))
    assert all(section_of(name).content for name in suite.report)
    assert all(claim["measure"] in measures() and claim["paper"] for claim in suite.claims)
    assert suite.report or not suite.claims
    assert suite.report or not suite.name.startswith("agl_")


def test_an_unknown_section_is_refused() -> None:
    with pytest.raises(UsageError, match=r"'cels'.*cells"):
        section_of("cels")


def test_no_two_papers_name_a_section_or_a_measure_alike():
    names = [name for module in _modules() for name in (*module.SECTIONS, *module.MEASURES)]
    assert len(names) == len(set(names))
