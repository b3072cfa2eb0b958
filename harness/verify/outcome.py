"""The exception of a parity gate that an engine does not pass."""

from typing import Any


class Incorrect(Exception):
    """An engine's numbers are wrong; ``parity`` goes into the record."""

    def __init__(self, message: str, parity: dict[str, Any]) -> None:
        super().__init__(message)
        self.parity = parity
