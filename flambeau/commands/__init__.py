"""``python -m flambeau inspect``, ``diff`` and ``convert``: checkpoint files on the command line.

Promise: no command runs code of a file. A file that cannot be read is an error of one line. May
import `core`, `checkpoint` and `distributed`. `contents.py` is what the commands read, `text.py`
what they print with.
"""

from __future__ import annotations

import argparse
import io
import os
import sys

from flambeau.checkpoint.limits import Limits
from flambeau.commands import convert, diff, inspect
from flambeau.commands.text import printable

__all__ = ["main"]

# The option for `Limits.memory`.
_MEMORY = "--memory"

# The errors of reading and writing files; a CheckpointError is a RuntimeError.
_ERRORS = (OSError, RuntimeError, TypeError, ValueError, MemoryError)


def main(arguments: list[str]) -> int:
    """Run the command that the first argument names.

    Returns:
        The exit status: 0 if all went well; for ``diff``, 1 if the files differ; 2
        after an error; for the others, 1 after an error.
    """
    parser = argparse.ArgumentParser(prog="python -m flambeau")
    parsers = parser.add_subparsers(dest="command", required=True)
    modules = {"inspect": inspect, "diff": diff, "convert": convert}
    for name, module in modules.items():
        text = module.__doc__ or ""
        each = parsers.add_parser(name, help=text.split("\n")[0], description=text)
        module.add_arguments(each)
        each.add_argument(
            _MEMORY, type=int, metavar="BYTES",
            help="the memory that a file's content may take; by default ten times its size and "
            "128 MiB more",
        )  # fmt: skip
    options = parser.parse_args(arguments)
    options.limits = Limits(memory=options.memory)
    command = options.command
    # Names in a file may have characters that the terminal lacks.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        status = modules[command].run(options)
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # The reader has closed the pipe, as `head` does.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        return 130
    except _ERRORS as error:
        message = str(error).replace("limits=Limits(memory=...)", f"{_MEMORY} BYTES")
        text = printable(message or type(error).__name__, 1000)
        sys.stderr.write(f"flambeau {command}: {text}\n")
    return 2 if command == "diff" else 1
