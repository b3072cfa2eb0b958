"""Synthetic graphs with the counts of published ones: shapes, community layout, edges, labels and features."""
