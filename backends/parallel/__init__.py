"""Several processes or threads for one engine: Ray's lifetime, pools of ranks, prefetching pipelines."""
