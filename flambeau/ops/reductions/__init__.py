"""Operators along dimensions: sums, extremes, order statistics, counts, running sums, sorting."""
