"""Operators that treat each element by itself: arithmetic, comparisons, functions of numbers."""
