"""The Deep Graph Library as a peer: its fused kernels, called as its own layers call them."""
