"""The float64 definition of every model, and plain PyTorch as a row of its own."""
