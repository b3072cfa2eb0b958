"""Peak resident memory of this process, as the kernel counts it."""

from contextlib import suppress
from pathlib import Path


class HighWater:
    """Peak resident memory of this process from now on, as the kernel counts it: readings would miss short peaks."""

    def __init__(self) -> None:
        with suppress(OSError):  # where the kernel cannot reset it, the growth is too small
            Path("/proc/self/clear_refs").write_text("5")
        self.start = _bytes_of("VmHWM")

    def growth(self) -> int:
        """Bytes by which peak resident memory exceeds that at the start."""
        return max(0, _bytes_of("VmHWM") - self.start)


def _bytes_of(key: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{key}:")), 0)
