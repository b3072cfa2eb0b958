"""A full-batch engine on our kernels, one process: whole-graph matrices, kept transposes, fused attention and loss."""
