"""A toy package: an engine, a data set, an order and a suite that the harness finds by entry points."""
