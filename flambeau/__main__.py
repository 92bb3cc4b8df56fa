"""``python -m flambeau script.py args...`` runs a program that was written for PyTorch."""

from __future__ import annotations

import os
import runpy
import sys

from flambeau.as_torch import install_as_torch

USAGE = """\
usage: python -m flambeau script.py [argument ...]
       python -m flambeau -m module [argument ...]
       python -m flambeau -c command [argument ...]

Runs a program with flambeau in the place of PyTorch: `import torch`, and everything below it, is
flambeau, in the processes that the program starts too.
"""


def main(arguments: list[str]) -> int:
    """Run what the command line names, as Python itself would."""
    if not arguments or arguments[0] in ("-h", "--help"):
        (sys.stdout if arguments else sys.stderr).write(USAGE)
        return 0 if arguments else 2
    script, *rest = arguments
    if script.startswith("-") and (script not in ("-m", "-c") or not rest):
        sys.stderr.write(f"flambeau: {script} is no option, or lacks what it names\n{USAGE}")
        return 2
    install_as_torch()
    if script == "-m":
        sys.argv = rest
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    elif script == "-c":
        sys.argv = ["-c", *rest[1:]]
        exec(compile(rest[0], "<string>", "exec"), vars(sys.modules["__main__"]))
    else:
        sys.argv = arguments
        # Where Python looks first: beside the script, and not in the working folder.
        sys.path.insert(0, os.path.dirname(os.path.abspath(script)))
        runpy.run_path(script, run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
