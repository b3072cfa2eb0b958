"""The parent process with Hydra: from a command line to cells, groups and what is still to be measured."""
