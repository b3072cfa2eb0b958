"""Statuses of failed cells, derived from exceptions, exit codes and output."""

import signal
from importlib.util import find_spec

from backends.memory_errors import FROM_OUTSIDE, NO_MEMORY, is_out_of_memory
from harness.store.statuses import STATUSES


class CellFailed(Exception):
    """A cell ended without a result: the status of its record, one sentence, and the end of its output."""

    def __init__(self, status: str, message: str, log_tail: str = "", parity: dict[str, object] | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.log_tail, self.parity = status, message, log_tail, parity

    @property
    def leaves_samples(self) -> bool:
        """Whether samples that were taken before stay: time, memory or a signal from outside ended the process."""
        return self.status in ("timeout", "oom") or FROM_OUTSIDE in self.message


def status_of(error: BaseException) -> tuple[str, str]:
    """Return status and message of an exception that ended a cell.

    An attribute ``status`` of the exception counts first: ranks set it, and their message names the rank.
    """
    text = f"{type(error).__name__}: {error}"
    first = (str(error).strip().splitlines() or [type(error).__name__])[0]
    if (status := getattr(error, "status", None)) in STATUSES:
        return str(status), first
    if is_out_of_memory(error):
        return "oom", f"out of memory: {text.splitlines()[0]}"
    if type(error).__name__ == "Unsupported":
        return "unsupported", first
    if isinstance(error, ModuleNotFoundError) and _is_absent(error.name):
        return "not_installed", f"{first}: install it into the interpreter of launcher.python"
    return "error", text.splitlines()[0]


def _is_absent(module: str | None) -> bool:
    """Whether the package of a module is not installed: of one that is, a module is missing by a mistake in code."""
    try:
        return module is None or find_spec(module.partition(".")[0]) is None
    except (ImportError, ValueError):
        return False


def status_of_exit(returncode: int, log_tail: str, is_memory_short: bool = True) -> tuple[str, str]:
    """Return status and message of a process that ended without an answer.

    ``is_memory_short``: whether the kernel may have ended processes for want of memory meanwhile.
    """
    name = signal.Signals(-returncode).name if returncode < 0 else f"exit code {returncode}"
    if returncode == -signal.SIGKILL and not is_memory_short:
        return "error", f"killed by signal {signal.SIGKILL:d} ({name}) {FROM_OUTSIDE}"
    if returncode == -signal.SIGKILL:
        return "oom", "killed by the kernel (SIGKILL), which it does when memory runs out"
    if NO_MEMORY.search(log_tail):
        return "oom", f"out of memory, ended by {name}"
    return "error", f"the process ended by {name}"
