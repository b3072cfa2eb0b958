"""JSON files that a user gave."""

import json
from pathlib import Path
from typing import Any

from backends.distpart.typed_graph import GraphError


def read_object(path: Path) -> dict[str, Any]:
    """Read an object; raises GraphError for a file that is not there, or holds something else."""
    try:
        content = json.loads(path.read_text())
    except FileNotFoundError as error:
        raise GraphError(f"{path} does not exist: give the file or folder that has it") from error
    except ValueError as error:
        raise GraphError(f"{path} is no JSON: {error}") from error
    if not isinstance(content, dict):
        raise GraphError(f"{path} holds {type(content).__name__}: an object with names is needed")
    return content
