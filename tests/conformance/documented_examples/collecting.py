"""Which names of the PyTorch that is installed have examples in their docstrings."""

from __future__ import annotations

import codeop
import doctest
import importlib
import inspect
import types
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch

import flambeau

_NAMES = """
    nn nn.functional nn.init nn.parameter nn.utils nn.utils.parametrizations nn.utils.parametrize
    nn.utils.prune nn.utils.rnn nn.utils.stateless optim optim.lr_scheduler optim.swa_utils autograd
    autograd.function autograd.functional autograd.grad_mode autograd.graph func linalg fft special
    signal.windows amp random accelerator backends backends.cuda backends.cudnn cuda jit compiler
    nn.attention overrides testing utils utils.checkpoint utils.data utils.dlpack utils.hooks
"""

#: The namespaces that are searched. A text that stands in several belongs to the first.
ROOMS = ["Tensor", "", *_NAMES.split()]


class Example(NamedTuple):
    """A piece of source that runs on its own.

    Attributes:
        source: The lines after the prompts.
        raises: Whether the documentation shows it to fail.
    """

    source: str
    raises: bool


def documented() -> dict[str, list[Example]]:
    """The examples of every name that flambeau has too.

    Which names it does not have, and why, is what ``tests/conformance/namespace`` says.
    """
    found: dict[str, list[Example]] = {}
    seen = set()
    with warnings.catch_warnings():
        # Looking at a deprecated name is enough for a warning.
        warnings.simplefilter("ignore")
        for name, value in _public():
            text = getattr(value, "__doc__", None)
            if isinstance(text, str) and ">>>" in text and text not in seen:
                seen.add(text)
                if examples := list(examples_in(text)):
                    found[name] = examples
    return found


def room_of(name: str) -> str:
    """The namespace that a documented name stands in."""
    return max((path for path in ROOMS if name.startswith(f"{path}.")), key=len, default="")


def _public() -> Iterator[tuple[str, Any]]:
    for path in ROOMS:
        theirs, ours = _room(torch, path), _room(flambeau, path)
        for name in sorted(dir(theirs)):
            value = getattr(theirs, name, None)
            if name.startswith("_") or not hasattr(ours, name) or not _is_pytorchs(value):
                continue
            yield f"{path}.{name}".lstrip("."), value
            if isinstance(value, type) and theirs is not torch.Tensor:
                yield from _members(path, value)


def _room(lib: Any, path: str) -> Any:
    if path == "Tensor":
        return lib.Tensor
    return importlib.import_module(f"{lib.__name__}.{path}".rstrip("."))


def _is_pytorchs(value: Any) -> bool:
    # Types such as FloatTensor have the members of Tensor once more.
    if isinstance(value, types.ModuleType | type(torch.FloatTensor)) or value is torch.Tensor:
        return False
    origin = getattr(value, "__module__", None) or "torch"
    return origin.partition(".")[0] == "torch"


def _members(path: str, owner: type) -> Iterator[tuple[str, Any]]:
    for base in inspect.getmro(owner):
        if _is_pytorchs(base) and base not in torch.Tensor.__mro__:
            for member, value in sorted(vars(base).items()):
                if not member.startswith("_") and not isinstance(value, type):
                    yield f"{path}.{base.__name__}.{member}".lstrip("."), value


def examples_in(text: str) -> Iterator[Example]:
    """The examples of a docstring.

    In several docstrings a prompt stands before every line of a loop, or the second line of an
    expression has none. So a prompt does not begin an example where it is indented or what comes
    before it is unfinished, and a result that finishes an example belongs to it.
    """
    pending, raises = "", False
    for each in doctest.DocTestParser().get_examples(text):
        begins = not each.source[0].isspace() and not _is_unfinished(pending)
        if begins and pending:
            yield Example(pending, raises)
        pending = each.source if begins else pending + each.source
        if each.want and _is_unfinished(pending) and _is_whole(pending + each.want):
            pending += each.want
        raises = each.exc_msg is not None
    if pending:
        yield Example(pending, raises)


def _is_unfinished(source: str) -> bool:
    return _compiled(source) is None


def _is_whole(source: str) -> bool:
    return isinstance(_compiled(source), types.CodeType)


def _compiled(source: str) -> types.CodeType | SyntaxError | None:
    """The code; what is wrong with it; or ``None`` if more lines might make it right."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return codeop.compile_command(source, symbol="exec")
        except (SyntaxError, ValueError, OverflowError) as error:
            return SyntaxError(str(error))
