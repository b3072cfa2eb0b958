"""Names of the models, for modules that must not import numpy."""

CONVOLUTIONS = ("gcn", "sage", "gat")
PROPAGATIONS = ("sgc", "ngcn", "lightgcn")
MODELS = CONVOLUTIONS + PROPAGATIONS
WEIGHTED = ("gcn", *PROPAGATIONS)  # models that multiply by edge weights
