"""An assumed network between machines, for models and for links that are held back as such a network would."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ClusterNetwork:
    """An assumed network: ``bandwidth`` of each machine's link in bytes per second, ``latency`` in seconds one way.

    Raises ValueError for a bandwidth or latency out of range.
    """

    bandwidth: float
    latency: float = 0.0

    def __post_init__(self) -> None:
        if not (self.bandwidth > 0 and 0 <= self.latency < float("inf")):
            values = f"{self.bandwidth:g} bytes/s and {self.latency:g} s"
            raise ValueError(f"a network of {values} is not allowed: bandwidth above 0, latency finite and 0 or more")

    def __str__(self) -> str:
        return f"{self.bandwidth * 8e-9:g} Gbit/s, {self.latency * 1e6:g} µs"

    def seconds(self, messages: int, received: float) -> float:
        """Seconds of ``messages`` one after the other that bring ``received`` bytes to a machine."""
        return messages * self.latency + received / self.bandwidth


NO_NETWORK = ClusterNetwork(float("inf"))
