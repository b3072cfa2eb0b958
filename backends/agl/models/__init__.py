"""gcn, sage and gat as layers that send and receive: examples for a model of one's own, equal to the built-in ones."""
