"""Generators of synthetic graphs; every choice is a hash of (seed, purpose, id)."""
