"""Validation of a folder: records in the wrong place and without their environment are found."""

from pathlib import Path

from harness.store import validate
from tests import factory


def test_a_record_in_the_wrong_folder_is_found(tmp_path: Path) -> None:
    path = factory.write(tmp_path, factory.record())
    moved = tmp_path / path.relative_to(tmp_path).as_posix().replace("cora", "citeseer").replace("seed=0", "seed=4")
    moved.parent.mkdir(parents=True)
    path.rename(moved)
    sentences = [problem for _, problem in validate.problems_in(tmp_path)]
    assert any("citeseer" in problem for problem in sentences)
    assert any("seed=4" in problem for problem in sentences)


def test_a_record_at_another_depth_is_found(tmp_path: Path) -> None:
    factory.write(tmp_path / "deeper", factory.record())
    (tmp_path / "deeper" / "environments").rename(tmp_path / "environments")
    assert any("lies at deeper" in problem for _, problem in validate.problems_in(tmp_path))


def test_a_record_without_its_environment_is_found(tmp_path: Path) -> None:
    path = factory.write(tmp_path, factory.record())
    next((tmp_path / "environments").iterdir()).unlink()
    assert [file for file, problem in validate.problems_in(tmp_path) if "environment" in problem] == [path]
