"""Measurement: clocks, memory, cache model, limits of the machine, scores, environment, digests of code."""
