"""Random tensors, from the generators in `flambeau.random`."""
