"""Operators on signals: Fourier transforms, and the windows before them."""
