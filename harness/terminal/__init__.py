"""What a run shows on the terminal: progress on stderr, tables on stdout."""
