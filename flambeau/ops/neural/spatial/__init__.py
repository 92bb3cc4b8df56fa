"""Operators over positions: convolution, pooling, padding, folding and resampling."""
