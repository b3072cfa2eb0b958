"""What engines on torch derive from: network, loss, trainer, inferrer, sampler, multiplier, optimizer."""
