"""The examples of one name, each run with PyTorch and then with flambeau, and compared at once."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import torch

import flambeau
from tests.conformance.documented_examples.collecting import Example, room_of
from tests.conformance.documented_examples.comparing import NODES, differences, differing_text
from tests.conformance.documented_examples.running import Outcome, Session

#: What gives tensors whose elements are whatever was in memory. flambeau's are zeros.
UNFILLED = re.compile(r"\b(new_)?empty(_\w+)?\(|\bskip_init\(|\bto_empty\(|\bTensor\(\d")


class Difference(NamedTuple):
    """A place where the two libraries went apart.

    Attributes:
        source: The example.
        what: What differs, in words.
        follows: Whether the example uses a name that one with a difference has made.
    """

    source: str
    what: str
    follows: bool


class Report(NamedTuple):
    """What came of the examples of one name.

    Attributes:
        compared: How many ran with PyTorch.
        differences: What flambeau did not do in the same way.
    """

    compared: int
    differences: list[Difference]


def compare(name: str, examples: Sequence[Example], folder: Path) -> Report:
    """Run the examples of a name with both libraries. Files go into ``folder``, an empty one."""
    compared, found = 0, []
    unfilled: set[str] = set()
    apart: set[str] = set()
    path = room_of(name)
    with (
        Session(torch, path, folder / "theirs") as theirs,
        Session(flambeau, path, folder / "ours") as ours,
    ):
        for example in examples:
            expected, observed = theirs.run(example.source), ours.run(example.source)
            if expected.error is not None and not example.raises:
                continue
            compared += 1
            used, made = used_names(example.source), made_names(example.source)
            is_filled = not (UNFILLED.search(example.source) or used & unfilled)
            unfilled = unfilled - made if is_filled else unfilled | made
            whats = list(_differences(expected, observed, is_filled))
            for each in sorted((used | made) & theirs.names.keys() - {"torch"}):
                pair = theirs.names[each], ours.names.get(each)
                whats += [f"{each}: {what}" for what in differences(*pair, is_filled)]
            follows = bool(used & apart)
            found += [Difference(example.source, what, follows) for what in whats]
            is_apart = follows or any(NODES not in what for what in whats)
            apart = apart | made if is_apart else apart - made
    return Report(compared, found)


def _differences(theirs: Outcome, ours: Outcome, is_filled: bool) -> Iterator[str]:
    if ours.error is not None:
        if _kind(ours.error) != _kind(theirs.error):
            yield f"{type(ours.error).__name__}: {ours.error}"
    elif theirs.error is not None:
        yield f"{type(theirs.error).__name__} is not raised"
    else:
        yield from differences(theirs.value, ours.value, is_filled)
        if is_filled:
            yield from differing_text(theirs.printed, ours.printed)


def _kind(error: Exception | None) -> str:
    # Some of PyTorch's exceptions show the name of a class of its C++ part.
    return type(error).__name__.lstrip("_")


def made_names(source: str) -> set[str]:
    """The names that a piece of source binds."""
    return set(_names(ast.parse(source), ast.Store))


def used_names(source: str) -> set[str]:
    """The names whose values a piece of source asks for."""
    return set(_names(ast.parse(source), ast.Load))


def _names(tree: ast.AST, context: type[ast.expr_context]) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, context):
            yield node.id
        elif context is ast.Store and isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif context is ast.Store and isinstance(node, ast.Import | ast.ImportFrom):
            yield from ((each.asname or each.name).partition(".")[0] for each in node.names)
