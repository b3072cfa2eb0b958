"""Data sets as graphs: loaders, generators, users' tables, vertex orders, and the prepared files that a cell reads."""
