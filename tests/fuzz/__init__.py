"""Random searches for disagreements: with PyTorch, and between compiled and eager.

Each search is a module with a function ``run(seconds, seed, limit) -> Report``: it stops after that
many seconds, after that many cases, or after whichever comes first, and the same seed searches the
same cases. ``python -m tests.fuzz.NAME --seconds N --seed S`` runs one search, ``make fuzz`` all.
"""

from tests.fuzz.report import Disagreement, Report, main

__all__ = ["Disagreement", "Report", "main"]
