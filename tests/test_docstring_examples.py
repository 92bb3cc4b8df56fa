"""Examples in docstrings run when they are copied: each imports the names that it uses."""

import ast
import builtins
import doctest
import symtable
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "flambeau"


def unbound(source):
    """The names that a program uses and neither assigns, imports nor defines."""
    bound, used = set(), set()

    def look(table, is_outermost):
        for symbol in table.get_symbols():
            if symbol.is_referenced() and (is_outermost or symbol.is_global()):
                used.add(symbol.get_name())
            is_bound = symbol.is_assigned() or symbol.is_imported() or symbol.is_namespace()
            if is_bound and is_outermost:
                bound.add(symbol.get_name())
        for each in table.get_children():
            look(each, is_outermost=False)

    look(symtable.symtable(source, "example", "exec"), is_outermost=True)
    return {name for name in used - bound if not hasattr(builtins, name)}


def examples_in(path):
    """The examples of each docstring of a file, as one program, with the name of its object."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            text = ast.get_docstring(node) or ""
            parts = [each.source for each in doctest.DocTestParser().get_examples(text)]
            if parts:
                yield getattr(node, "name", path.stem), "".join(parts)


def test_examples_import_the_names_that_they_use():
    missing = [
        f"{path.relative_to(PACKAGE)}: {name}: {', '.join(sorted(names))}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for name, source in examples_in(path)
        if (names := unbound(source))
    ]
    assert not missing, "\n".join(["these names are not imported:", *missing])


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("x = 1\nprint(x, y)\n", {"y"}),
        ("import a.b\ndef f(z):\n    return a, z, w\n", {"w"}),
        ("[q for q in range(3)]\n", set()),
    ],
)
def test_unbound_names_are_found(source, names):
    assert unbound(source) == names
