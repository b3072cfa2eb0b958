"""Formats of partitions and of what is partitioned: DGL's binary files, chunked graphs, assignments."""
