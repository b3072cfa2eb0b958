"""Output of a run on the terminal: progress on stderr, tables on stdout."""
