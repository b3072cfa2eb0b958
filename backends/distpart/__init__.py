"""Graph partitioning: assignments of our own, multilevel or streamed."""
