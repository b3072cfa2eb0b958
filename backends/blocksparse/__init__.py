"""A full-batch engine on our kernels, in one process or on several ranks."""
