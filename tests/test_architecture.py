"""The house keeps its shape: imports point down, layers do not reach JAX, files stay readable."""

import ast
import functools
from pathlib import Path

import pytest

from flambeau.core.support.higher import HIGHER
from flambeau.core.support.jax_private import REPLACEMENTS

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
    "commands": {"core", "checkpoint", "distributed"},
    "export": {"core", "ops", "compile", "nn", "func", "checkpoint"},
    "fx": {"core", "ops", "nn", "rare"},
    "distributed": {"core", "ops", "autograd", "nn", "checkpoint"},
    "distributions": {"core", "ops", "autograd"},
    "sparse": {"core", "ops"},
    "rare": {"core", "ops", "nn", "amp", "return_types"},
}
# Names of types, which every folder of the core may import.
TYPES = PACKAGE / "core" / "types.py"
# What each folder of the core may import from, besides itself.
BELOW_IN_CORE = {
    "support": set(),
    "interpreter": {"support"},
    "devices": {"support", "interpreter"},
    "programs": {"support", "interpreter", "devices"},
    "fusion": {"support", "devices", "programs"},
    "kernels": {"support", "programs", "fusion"},
    "values": {"support", "devices", "programs", "fusion", "kernels"},
    "tape": {"support", "devices", "programs", "fusion", "kernels", "values"},
    "operators": {"support", "devices", "programs", "fusion", "kernels", "values", "tape"},
}
# Paths that PyTorch has fixed for code of a higher room, which these files re-export.
FIXED_PATHS = {
    PACKAGE / "nn" / "attention" / "flex_attention.py",
}
JAX_PRIVATE = PACKAGE / "core" / "support" / "jax_private.py"
MAX_LINES = 500
MAX_FILES = 20
# Folders whose files PyTorch has named.
AS_IN_PYTORCH = {"", "distributed", "distributions", "fx", "nn/modules", "optim"}
# Modules that import others by names in tables.
BY_NAME = {"_lazy", "as_torch", "core/support/higher"}
# Private attributes of JAX's objects. `_params` is also a name of ours.
PRIVATE_ATTRIBUTES = {"_executable", "_lowering", "_committed", "_npy_value"}


@functools.cache
def imports_of(file):
    """Every module that a file imports, inside functions as well, and what may be one."""
    found = []
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return [*found, *imports_by_text(file)]


@functools.cache
def imports_by_text(file):
    """The modules of flambeau that a file imports by `import_module` with a literal name."""
    names = [each.value for _, (each, *_) in calls_of(file, "import_module") if is_text(each)]
    return [name for name in names if name.startswith("flambeau.")]


def calls_of(file, name):
    """The calls of a function in a file, each with its line and arguments."""
    if name not in file.read_text():
        return
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Call):
            called = getattr(node.func, "attr", None) or getattr(node.func, "id", "")
            if called.strip("_") == name:
                yield node.lineno, node.args


def is_text(node):
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


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


@pytest.mark.parametrize("folder", BELOW_IN_CORE)
def test_imports_in_the_core_point_down(folder):
    wrong = [
        f"{file.relative_to(ROOT)} imports {imported}"
        for file in (PACKAGE / "core" / folder).rglob("*.py")
        for imported in imports_of(file)
        if imported.startswith("flambeau.core.")
        and imported.split(".")[2] not in {TYPES.stem, folder, *BELOW_IN_CORE[folder]}
    ]
    assert not wrong


def test_the_folders_of_the_core_are_these():
    found = {each.name for each in (PACKAGE / "core").iterdir() if each.name != "__pycache__"}
    assert found == {"__init__.py", TYPES.name, *BELOW_IN_CORE}


def test_folders_have_few_files():
    folders = {file.parent for file in FILES}
    many = {
        name: count
        for folder in folders
        if (name := str(folder.relative_to(PACKAGE)).removeprefix(".")) not in AS_IN_PYTORCH
        and (count := len([*folder.glob("*.py")]) - 1) > MAX_FILES
    }
    assert not many


def test_functions_of_higher_modules_are_found_in_one_way():
    used = {ast.literal_eval(each) for file in FILES for _, (each,) in calls_of(file, "higher")}
    assert used == set(HIGHER)
    assert all(HIGHER.values())


def test_modules_that_are_imported_on_first_use_are_not_higher_ones():
    wrong = []
    for file in FILES:
        if str(file.relative_to(PACKAGE)).startswith(tuple(BY_NAME)):
            continue
        own = name_of(file)
        for imported in imports_by_text(file):
            # A package may import its own modules on first use.
            is_own = file.name == "__init__.py" and imported.startswith(f"{own}.")
            if not is_own and room_of(imported) not in {None, *rooms_below(own)}:
                wrong.append(f"{own} imports {imported}")
    assert not wrong


def room_of(module):
    parts = module.split(".")
    return parts[1] if parts[0] == "flambeau" and len(parts) > 1 and parts[1] in BELOW else None


def rooms_below(module):
    room = room_of(module)
    return BELOW if room is None else BELOW[room]


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
    for file in set(FILES) - {JAX_PRIVATE}:
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
    tree = ast.parse(JAX_PRIVATE.read_text())
    used = {path for path in REPLACEMENTS if path.rsplit(".", 1)[1] in attributes_of(tree)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "_private":
            used.add(ast.literal_eval(node.args[0]))
    assert used == set(REPLACEMENTS)
    imported = {each for each in imports_of(JAX_PRIVATE) if "._" in each}
    assert imported <= {"jaxlib._jax", *REPLACEMENTS}
    assert all(purpose and replacement for purpose, replacement in REPLACEMENTS.values())


def attributes_of(tree):
    return {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}


def test_names_of_types_import_classes_for_type_checkers_only():
    body = ast.parse(TYPES.read_text()).body
    run = [node for node in body if isinstance(node, ast.Import | ast.ImportFrom)]
    assert not [node for node in run if "flambeau" in ast.unparse(node)]
    checked = [node for node in body if isinstance(node, ast.If)]
    assert [ast.unparse(node.test) for node in checked] == ["TYPE_CHECKING"]


def test_imports_run_in_no_circle():
    # `TYPES` imports nothing of flambeau when it runs; see the test above.
    names = {name_of(file): file for file in FILES if file != TYPES}
    # Those inside functions count as well; but for a name of a module, not its package's.
    waiting = {
        name: {imported for imported in imports_of(file) if imported in names} - {name}
        for name, file in names.items()
    }
    for name, imported in waiting.items():
        inside = {each.rpartition(".")[0] for each in imported}
        waiting[name] = imported - inside - {each for each in names if name.startswith(f"{each}.")}
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
