"""Graphs from a user's node and edge tables, read whole into memory or streamed to disk."""
