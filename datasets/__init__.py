"""Graphs: what a data set is, where it comes from, how its vertices may be renumbered."""
