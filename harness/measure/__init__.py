"""What is measured beside results: time, memory, caches, the machine."""
