"""``python -m harness`` in an empty folder, with temporary files and a cache of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


class CommandLine:
    """Runs ``python -m harness`` in an empty folder with temporary files and a cache of its own."""

    def __init__(self, folder: Path) -> None:
        self.home, self.temporary, self.cache = folder / "home", folder / "tmp", folder / "cache"
        self.home.mkdir()
        self.temporary.mkdir()
        variables = {"PYTHONPATH": str(ROOT), "TMPDIR": str(self.temporary), "HARNESS_CACHE": str(self.cache)}
        self.environment = os.environ | variables | {"HARNESS_MIRROR": "http://127.0.0.1:9"}

    def __call__(self, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-m", "harness", *arguments],
            cwd=self.home,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=240,
        )
        assert done.returncode == code, f"{done.returncode}\n{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr
        return done

    def complete(self, line: str) -> str:
        completion = {"COMP_LINE": f"gnn-harness {line}", "COMP_POINT": str(len(line) + 12)}
        command = [sys.executable, "-m", "harness", "-sc", "query=bash"]
        done = subprocess.run(command, cwd=self.home, env=self.environment | completion, capture_output=True, text=True)
        return done.stdout

    def left(self) -> list[str]:
        return sorted(path.name for path in [*self.home.iterdir(), *self.temporary.iterdir()])

    def records(self) -> list[dict[str, Any]]:
        return [json.loads(path.read_text()) for path in sorted(self.home.glob("results/*/**/seed=*.json"))]

    def newest(self) -> list[dict[str, Any]]:
        """The newest record of each cell."""
        by_cell: dict[Path, dict[str, Any]] = {}
        for path in sorted(self.home.glob("results/*/**/seed=*.json"), key=lambda path: path.stat().st_mtime_ns):
            by_cell[path.parent] = json.loads(path.read_text())
        return list(by_cell.values())
