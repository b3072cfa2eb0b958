"""Locales of other encodings than UTF-8: no command ends by a character, and files are read as UTF-8."""

import os
import subprocess
import sys
from pathlib import Path

from harness.measure.code import digest_of

ROOT = Path(__file__).resolve().parents[2]
ASCII = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
DIGESTS = """
import sys
from pathlib import Path
from harness.measure.code import digest_of
print([digest_of(Path(path)) for path in sys.argv[1:]])
"""


def output_of(arguments: list[str], folder: Path, **variables: str) -> str:
    """What a Python program prints in a locale, undecodable bytes escaped."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)} | variables
    done = subprocess.run([sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode(errors="backslashreplace")
    return done.stdout.decode("latin-1")


def test_a_character_that_the_encoding_lacks_is_replaced(tmp_path: Path) -> None:
    cache = tmp_path / "größe→"
    cache.mkdir()
    command = ["-m", "harness", "list", "cache"]
    variables = {"PYTHONUTF8": "1", "PYTHONIOENCODING": "latin-1", "HARNESS_CACHE": str(cache)}
    assert "größe?" in output_of(command, tmp_path, **variables)


def test_configurations_are_read_as_utf_8(tmp_path: Path) -> None:
    assert "agl_flat" in output_of(["-m", "harness", "list", "suites"], tmp_path, **ASCII)


def test_sources_are_read_as_utf_8(tmp_path: Path) -> None:
    files = [tmp_path / "engine.py", tmp_path / "cpp" / "engine.hpp"]
    for file in files:
        file.parent.mkdir(exist_ok=True)
        file.write_text("größe = 1;", encoding="utf-8")
        os.utime(file, (0, 0))
    paths = [files[0], files[1].parent]
    assert output_of(["-c", DIGESTS, *map(str, paths)], tmp_path, **ASCII) == f"{[digest_of(path) for path in paths]}\n"
