"""Operators on signals: Fourier transforms and window functions."""
