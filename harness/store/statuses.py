"""How a cell can end. A measured process reads the statuses."""

from typing import Literal, get_args

Status = Literal["ok", "oom", "timeout", "error", "incorrect", "unsupported", "not_installed", "interrupted"]
STATUSES: tuple[str, ...] = get_args(Status)
