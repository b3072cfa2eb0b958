"""Dispatch: nodes, edges and attributes go to the parts that an assignment names, renumbered and written for DGL."""
