"""The lint of names and docstrings: each rule reports file and line, and lets good names and docstrings pass."""

import runpy
from pathlib import Path

import pytest

WORDS = runpy.run_path(str(Path(__file__).resolve().parents[2] / ".ci" / "words.py"))
SOUND = '"""Trainer of one engine."""\n\n\nclass Trainer:\n    """See-through by name, but it says what it is."""\n'


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Three packages without a problem."""
    for package in WORDS["PACKAGES"]:
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text(f'"""Package {package}."""\n')
    (tmp_path / "harness" / "trainer.py").write_text(SOUND)
    return tmp_path


def problems(root: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    code = WORDS["main"]([str(root)])
    lines = capsys.readouterr().out.splitlines()
    assert code == (0 if lines == ["words: 4 modules, names and docstrings are good"] else 1)
    return lines if code else []


def test_sound_names_pass(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert problems(checkout, capsys) == []


def test_a_class_name_of_two_packages_is_reported(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (checkout / "backends" / "trainer.py").write_text("\n\nclass Trainer:\n    pass\n")
    assert problems(checkout, capsys) == [
        "backends/trainer.py:3: class Trainer is also in harness/trainer.py:4: rename one"
    ]


@pytest.mark.parametrize("name", ["_Trainer", "Trainers"])
def test_private_and_other_class_names_pass(name: str, checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (checkout / "backends" / "__init__.py").write_text(f"class {name}:\n    pass\n")
    assert problems(checkout, capsys) == []


def test_an_exception_holds_for_its_modules_only(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, (modules, reason) in WORDS["SHARED_NAMES"].items():
        assert reason
        for path in [*modules, "datasets/elsewhere.py"]:
            (checkout / path).parent.mkdir(exist_ok=True)
            (checkout / path).write_text(f"class {name}:\n    pass\n")
    lines = problems(checkout, capsys)
    assert len(lines) == len(WORDS["SHARED_NAMES"])
    assert all(line.startswith("datasets/elsewhere.py:1: ") for line in lines)


@pytest.mark.parametrize(
    "text", ["See ``Pool``.", "See Pool; also the port.", "As ``Trainer.close``.", "As Trainer.close.", "As Pool."]
)
def test_a_docstring_that_points_elsewhere_is_reported(
    text: str, checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (checkout / "datasets" / "__init__.py").write_text(f'def load():\n    """{text}"""\n')
    assert [line.split(" docstring")[0] for line in problems(checkout, capsys)] == ["datasets/__init__.py:2:"]


@pytest.mark.parametrize("text", ["As many rows as ``csr`` has.", "As int32 while that fits.", "Seed of ``draw``."])
def test_a_docstring_that_describes_its_code_passes(
    text: str, checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (checkout / "datasets" / "__init__.py").write_text(f'def load():\n    """{text}"""\n')
    assert problems(checkout, capsys) == []


def test_fillers_are_counted_without_failing(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = "def found(given):\n    held = given\n    for kept in held:\n        print(kept)\n"
    (checkout / "datasets" / "__init__.py").write_text(code)
    assert WORDS["main"]([str(checkout), "--count"]) == 0
    assert "datasets: 4 held 1 kept 1 given 1 found 1" in capsys.readouterr().out
