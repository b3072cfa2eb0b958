"""Partitions that were dispatched for DGL, read as one graph in the order of their parts."""
