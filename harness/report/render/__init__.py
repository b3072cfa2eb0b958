"""Renderers: each writes pages in one format, from nothing but their content."""
