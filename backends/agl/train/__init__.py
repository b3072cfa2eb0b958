"""GraphTrainer on many workers: parameter servers or all-reduce (AGL, section 3.3.1)."""
