"""Partitioners of others, as peers."""
