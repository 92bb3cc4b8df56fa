"""Algorithms of PyTorch's for processes that do not work alike, by their names."""
