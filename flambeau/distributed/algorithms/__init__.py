"""PyTorch's algorithms for processes with unequal work, by name."""
