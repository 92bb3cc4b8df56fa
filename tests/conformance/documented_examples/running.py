"""Running a piece of source with one library, and keeping what it did."""

from __future__ import annotations

import ast
import re
import warnings
from contextlib import ExitStack, chdir, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from tests.conformance.documented_examples.surroundings import Chance, names, settings_kept

#: Sizes for which an example takes seconds, and smaller ones that show the same.
SMALLER = {
    "20, 16, 50, 44, 31": "2, 16, 10, 9, 8",
    "20, 16, 50, 32, 16": "2, 16, 20, 16, 14",
    "20, 16, 51, 33, 15": "2, 16, 13, 12, 9",
    "20, 16, 50, 10, 20": "2, 16, 8, 5, 6",
    "20, 16, 10, 50, 100": "2, 16, 10, 13, 12",
    "20, 100, 35, 45": "4, 100, 5, 6",
    "16, 3, 8, 320, 480": "2, 3, 8, 12, 16",
}


class Outcome(NamedTuple):
    """What an example did.

    Attributes:
        value: What its last expression gives.
        printed: What it wrote to the standard output.
        error: What it raised.
    """

    value: Any
    printed: str
    error: Exception | None


class Session:
    """Examples that run one after the other with one library, as at Python's prompt.

    Used as a context manager: at its end the library's settings are as they were.
    """

    def __init__(self, lib: Any, path: str, folder: Path) -> None:
        """Begin a session.

        Args:
            lib: PyTorch or flambeau.
            path: The namespace that the examples stand in.
            folder: Where files are written and found. It is made, with two files of tensors.
        """
        folder.mkdir()
        self.lib = lib
        self.names = names(lib, path)
        self._folder = folder
        self._chance = Chance()
        self._open = ExitStack()

    def __enter__(self) -> Self:
        self._open.enter_context(settings_kept(self.lib))
        self.lib.save(self.lib.ones(2), self._folder / "tensor.pt")
        self.lib.save([self.lib.ones(2)], self._folder / "tensors.pt")
        self.lib.manual_seed(0)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._open.close()

    def run(self, source: str) -> Outcome:
        """Run a piece of PyTorch's documentation, with this library under PyTorch's name."""
        printed = StringIO()
        with (
            chdir(self._folder),
            self._chance.drawn(),
            warnings.catch_warnings(),
            redirect_stdout(printed),
            redirect_stderr(StringIO()),
        ):
            warnings.simplefilter("ignore")
            try:
                value = self._evaluate(renamed(_for_this_machine(source), self.lib))
            except Exception as error:  # noqa: BLE001 - whatever is raised is what happened
                return Outcome(None, printed.getvalue(), error)
        return Outcome(value, printed.getvalue(), None)

    def _evaluate(self, source: str) -> Any:
        """The value of the last statement, where it is an expression."""
        body = ast.parse(source).body
        last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
        exec(compile(ast.Module(body, []), "example", "exec"), self.names)
        if not isinstance(last, ast.Expr):
            return None
        return eval(compile(ast.Expression(last.value), "example", "eval"), self.names)


def _for_this_machine(source: str) -> str:
    """An example for a GPU as one for the CPU, and a large one as a small one.

    Worker processes are left out, since PyTorch's are copies of this one with JAX's threads in it.
    """
    source = re.sub(r"(['\"])cuda(:\d)?\1", "'cpu'", source).replace(".cuda()", ".cpu()")
    source = re.sub(r"num_workers=\d+", "num_workers=0", source)
    for large, small in SMALLER.items():
        source = source.replace(large, small)
    return source


def renamed(text: str, lib: Any) -> str:
    """``text`` with the library's name in place of PyTorch's."""
    return re.sub(r"\btorch\b", lib.__name__, text)
