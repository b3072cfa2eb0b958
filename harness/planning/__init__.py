"""Planning, in the parent, with Hydra: from a command line to cells, groups and those that are still to be measured."""
