"""Operators of linear algebra: products, factorizations, equations, functions of matrices."""
