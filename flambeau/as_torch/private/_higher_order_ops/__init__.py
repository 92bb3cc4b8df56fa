"""Functions of functions that PyTorch has not made public."""
