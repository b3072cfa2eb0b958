"""One page per suite: the blocks that its file names, made from the records that it measured."""
