"""Loaders of published data sets, one module per file layout."""
