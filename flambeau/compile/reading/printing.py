"""The text that a traced function prints, which each call of its program prints again."""

from __future__ import annotations

import builtins
import io
import sys
import threading
from typing import Any

from flambeau.core.support import debugger
from flambeau.core.support.modes import modes

_lock = threading.Lock()
_keeping: set[Any] = set()
# The function that `_print` replaces, which a program may have set.
_replaced: Any = builtins.print


def keep_printed(wanted_by: Any) -> None:
    """Make ``print`` add its text to ``trace.printed`` of the trace of its thread, if it has one.

    Args:
        wanted_by: Anything hashable, for `stop_keeping_printed`.
    """
    global _replaced
    with _lock:
        _keeping.add(wanted_by)
        if builtins.print is not _print:
            _replaced = builtins.print
            builtins.print = _print


def stop_keeping_printed(wanted_by: Any) -> None:
    """Undo `keep_printed`; after an interrupt it may be called again."""
    with _lock:
        _keeping.discard(wanted_by)
        if not _keeping and builtins.print is _print:
            builtins.print = _replaced


def _print(*values: Any, file: Any = None, **options: Any) -> None:
    printed = getattr(modes.trace, "printed", None)
    if printed is None or file not in (None, sys.stdout) or debugger.at_its_prompt():
        _replaced(*values, file=file, **options)
        return
    # A tensor among the values raises, so nothing is printed before the eager call.
    text = io.StringIO()
    _replaced(*values, file=text, **options)
    printed.append(text.getvalue())


def show(text: str) -> None:
    """Print the text of a trace."""
    if sys.stdout is not None:
        sys.stdout.write(text)


class _Local(threading.local):
    failed: str = ""


_local = _Local()


def put_aside(printed: list[str] | None) -> None:
    """Keep the text of a failed trace for `show_failed`; an eager call prints it itself."""
    _local.failed = "".join(printed or ())


def show_failed() -> None:
    """Print the text of this thread's last trace, which has failed, if no eager call follows."""
    text, _local.failed = _local.failed, ""
    show(text)
