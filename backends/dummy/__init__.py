"""An engine for tests of the harness: right numbers, fixed simulated times, and every way to fail."""
