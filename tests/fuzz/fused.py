"""Random programs, eager and fused: each is run six times, as one program from the third time on.

``python -m tests.fuzz.fused --seconds 600 --seed 1`` searches as `tests.fuzz.programs` does.
"""

from __future__ import annotations

import sys

from tests.fuzz import programs
from tests.fuzz.report import Report, main


def run(seconds: float | None, seed: int, limit: int | None) -> Report:
    """Search for that long."""
    return programs.run(seconds, seed, limit, fused=True)


if __name__ == "__main__":
    sys.exit(main(run))
