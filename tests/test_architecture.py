"""The house keeps its shape: imports point down, layers do not reach JAX, files stay readable."""

import ast
from pathlib import Path

import pytest

from flambeau.core.jax_private import REPLACEMENTS

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "flambeau"
FILES = sorted(PACKAGE.rglob("*.py"))
# What each room may import from, besides itself.
BELOW = {
    "core": set(),
    "random": {"core"},
    "ops": {"core", "random", "return_types"},
    "autograd": {"core", "random", "ops"},
    "compile": {"core", "ops"},
    "func": {"core", "random", "ops", "autograd", "compile", "nn"},
    "nn": {"core", "ops", "autograd", "compile", "return_types", "sparse"},
    "optim": {"core", "ops", "autograd", "compile", "nn"},
    "amp": {"core", "ops"},
    "checkpoint": {"core", "ops", "nn", "sparse"},
    "fx": {"core", "ops", "nn", "rare"},
    "distributed": {"core", "ops", "autograd", "nn", "checkpoint"},
    "distributions": {"core", "ops", "autograd"},
    "sparse": {"core", "ops"},
    "rare": {"core", "ops", "nn", "amp", "return_types"},
}
# Paths that PyTorch has fixed for code of a higher room, which these files re-export.
FIXED_PATHS = {
    PACKAGE / "nn" / "attention" / "flex_attention.py",
}
MAX_LINES = 500
# Private attributes of JAX's objects. `_params` is also a name of ours.
PRIVATE_ATTRIBUTES = {"_executable", "_lowering", "_committed", "_npy_value"}


def imports_of(file):
    """Every module that a file imports, inside functions as well, and what may be one."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def name_of(file):
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@pytest.mark.parametrize("room", BELOW)
def test_imports_point_down(room):
    wrong = []
    for file in set((PACKAGE / room).rglob("*.py")) - FIXED_PATHS:
        for imported in imports_of(file):
            parts = imported.split(".")
            is_room = parts[0] == "flambeau" and len(parts) > 1 and parts[1] in BELOW
            if is_room and parts[1] not in {room, *BELOW[room]}:
                wrong.append(f"{file.relative_to(ROOT)} imports {imported}")
    assert not wrong


@pytest.mark.parametrize("file", FIXED_PATHS, ids=lambda file: file.stem)
def test_files_at_fixed_paths_define_nothing(file):
    tree = ast.parse(file.read_text())
    definitions = (ast.FunctionDef, ast.ClassDef)
    assert not [node for node in ast.walk(tree) if isinstance(node, definitions)]


@pytest.mark.parametrize("room", ["nn", "utils/data", "distributions"])
def test_layers_and_data_do_not_import_jax(room):
    wrong = [
        str(file.relative_to(ROOT))
        for file in (PACKAGE / room).rglob("*.py")
        if any(imported.split(".")[0] in ("jax", "jaxlib") for imported in imports_of(file))
    ]
    assert not wrong


def test_nothing_imports_torch():
    wrong = [
        str(file.relative_to(ROOT))
        for file in FILES
        if any(imported.split(".")[0] == "torch" for imported in imports_of(file))
    ]
    assert not wrong


def test_private_names_of_jax_are_imported_in_one_file():
    wrong = []
    for file in set(FILES) - {PACKAGE / "core" / "jax_private.py"}:
        private = filter(is_private_path, imports_of(file))
        wrong += [f"{file.relative_to(ROOT)} imports {imported}" for imported in private]
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Attribute) and node.attr in PRIVATE_ATTRIBUTES:
                wrong.append(f"{file.relative_to(ROOT)} uses .{node.attr}, line {node.lineno}")
            if isinstance(node, ast.Attribute) and is_private_path(ast.unparse(node)):
                wrong.append(f"{file.relative_to(ROOT)} uses {ast.unparse(node)}")
    assert not wrong


def is_private_path(path):
    first, *rest = path.split(".")
    return first in ("jax", "jaxlib") and any(
        name.startswith("_") and not name.startswith("__") for name in rest
    )


def test_each_private_name_of_jax_has_a_row_that_says_what_replaces_it():
    tree = ast.parse((PACKAGE / "core" / "jax_private.py").read_text())
    used = {path for path in REPLACEMENTS if path.rsplit(".", 1)[1] in attributes_of(tree)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "_private":
            used.add(ast.literal_eval(node.args[0]))
    assert used == set(REPLACEMENTS)
    imported = {each for each in imports_of(PACKAGE / "core" / "jax_private.py") if "._" in each}
    assert imported <= {"jaxlib._jax", *REPLACEMENTS}
    assert all(purpose and replacement for purpose, replacement in REPLACEMENTS.values())


def attributes_of(tree):
    return {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}


def test_imports_run_in_no_circle():
    names = {name_of(file): file for file in FILES if file.name != "__init__.py"}
    # Those inside functions count as well.
    waiting = {
        name: {imported for imported in imports_of(file) if imported in names} - {name}
        for name, file in names.items()
    }
    while free := [name for name, below in waiting.items() if not below]:
        for name in free:
            del waiting[name]
        for below in waiting.values():
            below.difference_update(free)
    assert not waiting


def test_files_fit_in_one_reading():
    long = {
        str(file.relative_to(ROOT)): lines
        for file in FILES
        if (lines := len(file.read_text().splitlines())) > MAX_LINES
    }
    assert not long


def test_the_public_namespace_defines_nothing():
    tree = ast.parse((PACKAGE / "__init__.py").read_text())
    assert all(isinstance(node, ast.Import | ast.ImportFrom | ast.Expr) for node in tree.body)
