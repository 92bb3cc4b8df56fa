"""``python -m flambeau script.py args...`` runs a program that was written for PyTorch.

``python -m flambeau inspect``, ``diff`` and ``convert`` are commands for checkpoint files.
"""

from __future__ import annotations

import os
import runpy
import sys
from importlib import import_module

import jax

from flambeau.as_torch import install_as_torch

COMMANDS = ("inspect", "diff", "convert")
USAGE = """\
usage: python -m flambeau script.py [argument ...]
       python -m flambeau -m module [argument ...]
       python -m flambeau -c command [argument ...]
       python -m flambeau inspect [--all] [--values] file
       python -m flambeau diff [--headers] file file
       python -m flambeau convert [--dtype DTYPE] [--force] file out

Runs a program with flambeau in the place of PyTorch: `import torch`, and everything below it, is
flambeau, in the processes that the program starts too. The last three are about checkpoint files;
`inspect --help` says more. A script with the name of a command is run as `./inspect`.
"""


def main(arguments: list[str]) -> int:
    """Run the script or module that the command line names, like the Python interpreter."""
    if not arguments or arguments[0] in ("-h", "--help"):
        (sys.stdout if arguments else sys.stderr).write(USAGE)
        return 0 if arguments else 2
    script, *rest = arguments
    if script.startswith("-") and (script not in ("-m", "-c") or not rest):
        sys.stderr.write(f"flambeau: {script} is no option, or lacks what it names\n{USAGE}")
        return 2
    if script in COMMANDS:
        # Always the command: a folder with downloaded files may hold a program of this name.
        if os.path.isfile(script):
            sys.stderr.write(f"flambeau: this is the command; the script {script} is ./{script}\n")
        # On a GPU, JAX would claim most of the memory.
        jax.config.update("jax_platforms", "cpu")
        return import_module("flambeau.commands").main(arguments)
    install_as_torch()
    if script == "-m":
        sys.argv = rest
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    elif script == "-c":
        sys.argv = ["-c", *rest[1:]]
        exec(compile(rest[0], "<string>", "exec"), vars(sys.modules["__main__"]))
    else:
        sys.argv = arguments
        # Python's first search path: the script's folder, not the working directory.
        sys.path.insert(0, os.path.dirname(os.path.abspath(script)))
        runpy.run_path(script, run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
