"""A build backend (PEP 517) for a package of pure Python, so that the test installs it without a network.

A real package writes ``requires = ["setuptools"]`` instead and lists its YAML files as package data.
"""

import tomllib
import zipfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent


def build_wheel(folder: str, settings: Any = None, metadata: str | None = None) -> str:
    """Write a wheel with the package ``gnn_toy``, its YAML files and its entry points; return the wheel's name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    stem = f"{project['name'].replace('-', '_')}-{project['version']}"
    files = {str(path.relative_to(ROOT)): path.read_text() for path in sorted((ROOT / "gnn_toy").rglob("*.*"))}
    info = f"{stem}.dist-info"
    groups = project["entry-points"].items()
    points = [line for group, named in groups for line in (f"[{group}]", *(f"{k} = {v}" for k, v in named.items()))]
    files[f"{info}/entry_points.txt"] = "\n".join(points)
    files[f"{info}/METADATA"] = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    files[f"{info}/WHEEL"] = (
        "Wheel-Version: 1.0\nGenerator: build_backend.py\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    )
    files[f"{info}/RECORD"] = "".join(f"{name},,\n" for name in (*files, f"{info}/RECORD"))
    name = f"{stem}-py3-none-any.whl"
    with zipfile.ZipFile(Path(folder) / name, "w") as wheel:
        for place, text in files.items():
            wheel.writestr(place, text)
    return name
