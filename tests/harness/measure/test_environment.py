"""The description of a machine: the same from every process, different with threads and packages."""

import json
import subprocess
import sys

from harness.measure import environment
from harness.measure.sources import ROOT


def test_another_process_of_this_interpreter_describes_the_same_environment():
    command = [sys.executable, "-m", "harness.measure.environment", "dummy", "2", "cpu"]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert json.loads(answer.stdout) == json.loads(json.dumps(environment.describe("dummy", 2)))


def test_threads_and_packages_are_checked():
    assert environment.checked("dummy", 1) != environment.checked("dummy", 2)
    assert environment.checked("dummy", 1)["packages"]["torch"]
    assert environment.installed("no-such-package-at-all") is None


def test_only_own_engines_name_their_kernels():
    assert "kernels" in environment.checked("agl", 1)
    assert "kernels" not in environment.checked("pyg", 1)


def test_the_code_is_not_known_before_a_cell_ran():
    assert "sources" not in environment.checked("agl", 1)
