"""Packages that were written for PyTorch, put to a small real use with both libraries.

Each file of `cases` uses one package from PyPI: it builds a model, and says what the loss of a
training step is. ``python -m tests.programs`` installs the package twice, beside flambeau without
PyTorch and beside PyTorch itself, each time in an environment of its own, runs the program in both,
eagerly and with its step compiled, and compares; ``--write`` writes docs/compatibility.md's table.
"""
