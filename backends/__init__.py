"""Engines: our own, after published systems, and the peers that they are measured against."""
