"""Copies of this checkout, small enough to be made in a test, and an engine of known pace for them."""

import shutil
import sys
from pathlib import Path

from backends.kernels.extension import extension

ROOT = Path(__file__).resolve().parents[3]
PACKAGES = ("harness", "backends", "datasets", "conf")
ENGINE = Path(__file__).with_name("paced_engine.py")
ENTRY_POINTS = "[gnn_harness.backends]\npaced = gnn_paced:PacedConfig\n"
# An editable install would import its own checkout, whatever the path says.
PYTHON = f"""#!/bin/sh
PYTHONPATH="$(dirname "$0")/../site:$PYTHONPATH" exec {sys.executable} "$@"
"""
NO_EDITABLE = (
    "import sys\nsys.meta_path[:] = [one for one in sys.meta_path if 'ScikitBuild' not in type(one).__name__]\n"
)
CONF = "# Work of known length\ndefaults: [/schema/backend/paced@_here_, _self_]\nname: paced\n"


def copy_checkout(folder: Path) -> Path:
    """Copy the packages, the configuration and the built kernels of this checkout; give it an interpreter."""
    for package in PACKAGES:
        shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    for file in Path(extension.__file__).parent.glob("_native*.so"):  # built into the checkout or into site-packages
        shutil.copy(file, folder / "backends" / "kernels")
    site, python = folder / ".venv" / "site", folder / ".venv" / "bin" / "python"
    for place, text in ((site / "sitecustomize.py", NO_EDITABLE), (python, PYTHON)):
        place.parent.mkdir(parents=True)
        place.write_text(text)
    python.chmod(0o755)
    return folder


def add_paced_engine(checkout: Path, factor: float) -> None:
    """Put the engine ``paced`` into a checkout, as a plug-in whose calls take ``factor`` times as long as its work."""
    package, info = checkout / "gnn_paced", checkout / "gnn_paced-1.dist-info"
    package.mkdir()
    info.mkdir()
    (package / "__init__.py").write_text(ENGINE.read_text().replace("FACTOR = 1.0", f"FACTOR = {factor}"))
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: gnn-paced\nVersion: 1\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    (checkout / "conf" / "backend" / "paced.yaml").write_text(CONF)
