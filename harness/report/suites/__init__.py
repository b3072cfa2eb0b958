"""One page per suite: the sections that its file names, built from the records that it measured."""
