"""Another interpreter describes itself, or a sentence says that it cannot."""

import shlex
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from harness.planning.compose import compose_one
from harness.planning.config import load
from harness.planning.interpreter import checked_environment
from harness.usage import UsageError

ORDERS = ("none", "rcm")


def environment_by(folder: Path, script: str) -> dict[str, object]:
    """The environment as a shell script in the place of an interpreter describes it."""
    program = folder / "python"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return checked_environment(load(compose_one(["backend=dummy", f"launcher.python={program}"])))


@pytest.mark.parametrize(
    "script",
    ["true", 'echo "$@"', "echo 1", "echo []", "echo {}", """echo '{"checked": 1}'""", "printf '\\377'", "exit 3"],
    ids=["silent", "echo", "number", "list", "other keys", "other value", "no text", "failure"],
)
def test_what_is_no_python_is_a_usage_error(script: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"launcher\.python=.*python cannot describe itself \(.+\)"):
        environment_by(tmp_path, script)


def test_a_wrapper_may_print_before_its_python_does(tmp_path: Path) -> None:
    described = environment_by(tmp_path, f'echo welcome\nexec {shlex.quote(sys.executable)} "$@"')
    assert described["packages"] and described["threads"]


def test_packages_that_compute_an_order_are_checked_and_no_others() -> None:
    plain, ordered = (checked_environment(load(compose_one(["backend=dummy", f"order={name}"]))) for name in ORDERS)
    assert ordered == plain | {"order_packages": {"scipy": version("scipy")}}
