"""Peak resident memory of this process, as the kernel counts it."""

from contextlib import suppress
from pathlib import Path

STATUS = Path("/proc/self/status")


class HighWater:
    """Peak resident memory of this process from now on, as the kernel counts it: readings would miss short peaks."""

    def __init__(self) -> None:
        with suppress(OSError):  # where the kernel cannot reset it, the growth is too small
            Path("/proc/self/clear_refs").write_text("5")
        self.start = _peak()

    def growth(self) -> int | None:
        """Bytes by which peak resident memory exceeds that at the start; None where the kernel does not count it."""
        peak = _peak()
        return None if peak is None or self.start is None else max(0, peak - self.start)


def _peak() -> int | None:
    lines = STATUS.read_text(errors="replace").splitlines()
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), None)
