"""Whether new processes, which import the main script, would run its code again."""

from __future__ import annotations

import ast
import functools
import sys
from pathlib import Path
from types import FrameType

__all__ = ["is_unguarded"]


def is_unguarded() -> bool:
    """Whether the main script is at a line that is not under ``if __name__ == "__main__":``.

    A process that imports the script reaches this line too, and would start processes as well.
    """
    main = vars(sys.modules["__main__"])
    if main.get("__file__") is None:
        # Interactive, or given with -c: no process imports it.
        return False
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_code.co_name == "<module>" and frame.f_globals is main:
            return not _is_guarded(frame.f_code.co_filename, frame.f_lineno)
        frame = frame.f_back
    return False


@functools.lru_cache(maxsize=64)
def _is_guarded(file: str, line: int) -> bool:
    try:
        tree = ast.parse(Path(file).read_bytes())
    except (OSError, SyntaxError, ValueError):
        # The source is not what runs.
        return True
    guards = [each for each in ast.walk(tree) if isinstance(each, ast.If) and _asks_name(each.test)]
    return any(each.lineno <= line <= (each.end_lineno or line) for each in guards)


def _asks_name(test: ast.expr) -> bool:
    return any(isinstance(each, ast.Name) and each.id == "__name__" for each in ast.walk(test))
