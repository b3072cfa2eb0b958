"""PyTorch Geometric as a peer: its own convolutions in its default and its fastest forms."""
