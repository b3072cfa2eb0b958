"""The parity gate: before a cell is timed, its engine's numbers are compared with a definition."""
