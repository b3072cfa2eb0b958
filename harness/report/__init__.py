"""Pages, tables and figures made from records."""
