"""Write the type stubs of names that flambeau binds at run time; ``--check`` only compares them.

    python -m tools.stubs [--check]

Operators become functions and methods when they are declared, and rare names are imported on first
use. Type checkers see neither, so each module that only collects such names has a stub. Modules
that hold code have no stub, because a stub hides the code from the type checker.
"""

from __future__ import annotations

import argparse
import ast
import builtins
import inspect
import itertools
import keyword
import sys
import types
import typing
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from flambeau import _answers
from flambeau._absent import AnswerFinder
from flambeau.core.kernels import kinds
from flambeau.core.operators.op import _ALIASES
from flambeau.core.values.tensor import Tensor

ROOT = Path(__file__).parent.parent
# The modules whose functions are written to stubs; each of them only imports names.
GATHERING = ("flambeau", "flambeau.nn.functional", "flambeau.linalg", "flambeau.fft",
             "flambeau.special")  # fmt: skip
METHODS = "flambeau.core.values.tensor_methods"
RETURN_TYPES = "flambeau.return_types"
# Functions and methods without annotations that may return something other than one tensor.
OTHER_RESULTS = frozenset(
    """
    adaptive_max_pool1d adaptive_max_pool1d_with_indices adaptive_max_pool2d
    adaptive_max_pool2d_with_indices adaptive_max_pool3d adaptive_max_pool3d_with_indices
    aminmax atleast_1d atleast_2d atleast_3d backward chunk compile data_ptr element_size
    fractional_max_pool2d fractional_max_pool2d_with_indices fractional_max_pool3d
    fractional_max_pool3d_with_indices gradient grad_fn histogram histogramdd is_pinned is_shared
    item ldl_factor ldl_factor_ex load lstsq lu lu_factor lu_factor_ex lu_unpack map_ max
    max_pool1d max_pool1d_with_indices max_pool2d max_pool2d_with_indices max_pool3d
    max_pool3d_with_indices median min module_load multi_head_attention_forward names nanmedian
    nonzero numpy pca_lowrank qr register_hook register_post_accumulate_grad_hook size slogdet sort
    split split_copy split_with_sizes split_with_sizes_copy std_mean storage storage_type stride svd
    svd_lowrank sym_float sym_int sym_ite sym_max sym_min sym_not sym_sum to_dlpack tolist
    triangular_solve tril_indices type unbind_copy unique unique_consecutive
    unsafe_split_with_sizes untyped_storage var_mean wait where
    """.split()  # noqa: SIM905
)
HEADER = "# Written by `python -m tools.stubs`; change the declarations and run it again.\n"


class Stub:
    """The text of a stub: its lines and imports."""

    def __init__(self, module: str) -> None:
        self.module = module
        self.imports: set[str] = set()
        self.lines: list[str] = []

    def name_of(self, cls: type) -> str:
        """The name of a class in the stub, which nothing shadows."""
        if cls.__module__ == "builtins":
            if not hasattr(builtins, cls.__name__):
                return self.any()
            self.imports.add("import builtins as _builtins")
            return f"_builtins.{cls.__name__}"
        # Some versions of JAX include jaxlib's module in the name of jax.Array.
        home, name = cls.__module__, cls.__name__.rpartition(".")[2]
        if getattr(import_module(home), name, None) is not cls:
            return self.any()
        self.imports.add(f"from {home} import {name} as _{name}")
        return f"_{name}"

    def any(self) -> str:
        self.imports.add("from typing import Any as _Any")
        return "_Any"

    def tensor(self) -> str:
        return self.name_of(Tensor)

    def type_of(self, annotation: Any, *, optional_number: bool = False) -> str:
        """The text of an evaluated annotation."""
        origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
        if origin is typing.Annotated:
            return self._kind(annotation, optional_number)
        if annotation is None or annotation is type(None):
            return "None"
        if origin in (typing.Union, types.UnionType):
            parts = [self.type_of(each, optional_number=optional_number) for each in arguments]
            return self.any() if "_Any" in parts else " | ".join(dict.fromkeys(parts))
        if origin is typing.Literal:
            self.imports.add("from typing import Literal as _Literal")
            return f"_Literal[{', '.join(map(repr, arguments))}]"
        if annotation is Ellipsis:
            return "..."
        if isinstance(annotation, list):
            return f"[{', '.join(map(self.type_of, annotation))}]"
        if isinstance(origin, type):
            # A list of sizes is accepted wherever a tuple of sizes is.
            if origin is tuple and arguments and arguments[-1] is Ellipsis:
                self.imports.add("from collections.abc import Sequence as _Sequence")
                return f"_Sequence[{self.type_of(arguments[0])}]"
            return f"{self.name_of(origin)}[{', '.join(map(self.type_of, arguments))}]"
        return self.name_of(annotation) if isinstance(annotation, type) else self.any()

    def _kind(self, annotation: Any, optional_number: bool) -> str:
        found = [each for each in annotation.__metadata__ if isinstance(each, kinds.Kind)]
        if not found:
            return self.type_of(annotation.__origin__)
        kind = found[0]
        if kind is kinds.ARRAYS:
            self.imports.add("from collections.abc import Sequence as _Sequence")
            return f"_Sequence[{self.tensor()}]"
        if kind is kinds.TENSOR or (kind is kinds.ARRAY and not optional_number):
            return self.tensor()
        if kind in (kinds.OPERAND, kinds.NUMBER, kinds.ARRAY):
            self.name_of(int)
            return f"{self.tensor()} | _builtins.complex"
        return self.any()

    def function(self, name: str, face: Any, *, is_method: bool = False) -> None:
        """The declaration of a function, or of a method of Tensor."""
        in_place = _overwriting(face)
        signature, inner = _signature(in_place or face)
        parameters = list(signature.parameters.values())
        is_static = is_method and not parameters
        known = {each.name for each in parameters}
        takes_variable_keywords = any(each.kind is each.VAR_KEYWORD for each in parameters)
        is_operator = hasattr(face, "op") or _is_function_face(face)
        result = self._result(name, signature, inner, face, in_place is not None)
        aliases = []
        if (is_operator or in_place) and not takes_variable_keywords:
            for alias, meant in _ALIASES.items():
                found = signature.parameters.get(meant)
                if meant == "input" or found is None or alias in known:
                    continue
                if found.default is not found.empty:
                    aliases.append(found.replace(name=alias, kind=found.KEYWORD_ONLY))
        takes_out = is_operator and in_place is None and "out" not in known
        takes_out = takes_out and not takes_variable_keywords and "Tensor" in result
        text = [] if not is_static else ["*args: " + self.any()]
        star = False
        for n, each in enumerate([*parameters, *aliases]):
            if each.kind is each.KEYWORD_ONLY and not star:
                star = True
                text.append("*")
            star = star or each.kind is each.VAR_POSITIONAL
            text.append("self" if is_method and n == 0 else self._parameter(each, inner))
            following = parameters[n + 1 :] if n < len(parameters) else []
            ends_positional = each.kind is each.POSITIONAL_ONLY and not any(
                other.kind is each.POSITIONAL_ONLY for other in following
            )
            if ends_positional:
                text.append("/")
        if takes_out:
            text += [] if star else ["*"]
            out = self.tensor() if "Tensor" in result and result == self.tensor() else self.any()
            text.append(f"out: {out} | None = None")
        indent = "    " if is_method else ""
        line = f"{indent}def {name}({', '.join(text)}) -> {result}: ..."
        self.lines.append(line)

    def _parameter(self, each: inspect.Parameter, inner: Any) -> str:
        optional = each.default is not each.empty
        annotation = self.type_of(_evaluated(each.annotation, inner), optional_number=optional)
        if optional and each.default is None and "None" not in annotation and annotation != "_Any":
            annotation += " | None"
        prefix = {each.VAR_POSITIONAL: "*", each.VAR_KEYWORD: "**"}.get(each.kind, "")
        shown = f" = {_default(each.default)}" if optional else ""
        return f"{prefix}{each.name}: {annotation}{shown}"

    def _result(
        self, name: str, signature: inspect.Signature, inner: Any, face: Any, in_place: bool
    ) -> str:
        if in_place:
            return self.tensor()
        declared = getattr(face, "op", None)
        several = None if declared is None else declared.kernel_options["returns"]
        if several is not None:
            self.imports.add("from flambeau import return_types as _return_types")
            return f"_return_types.{several.__name__}"
        annotation = _evaluated(signature.return_annotation, inner)
        if typing.get_origin(annotation) is tuple and typing.get_args(annotation)[-1] is Ellipsis:
            self.name_of(tuple)
            return f"_builtins.tuple[{self.tensor()}, ...]"
        if annotation is Any or typing.get_origin(annotation) is typing.Annotated:
            is_tensor = name.strip("_") not in OTHER_RESULTS
            return self.tensor() if is_tensor else self.any()
        return self.type_of(annotation)

    def text(self) -> str:
        """The whole stub."""
        return "\n".join([HEADER, *sorted(self.imports), "", *self.lines, ""])


def _signature(face: Any) -> tuple[inspect.Signature, Any]:
    inner = inspect.unwrap(face)
    return inspect.signature(inner), inner


def _overwriting(face: Any) -> Any:
    """The operator whose result an in-place method such as ``exp_`` writes into its tensor."""
    code = getattr(face, "__code__", None)
    if code is None or code.co_qualname != "make_in_place.<locals>.in_place":
        return None
    return face.__closure__[code.co_freevars.index("face")].cell_contents


def _is_function_face(face: Any) -> bool:
    code = getattr(face, "__code__", None)
    return code is not None and code.co_qualname.startswith("function.<locals>.declare")


def _evaluated(annotation: Any, inner: Any) -> Any:
    if annotation is inspect.Signature.empty:
        return Any
    if not isinstance(annotation, str):
        return annotation
    try:
        return eval(annotation, inner.__globals__)
    except (NameError, TypeError, AttributeError):
        # A name that is imported under TYPE_CHECKING.
        return Any


def _default(value: Any) -> str:
    is_plain = value is None or type(value) in (int, float, bool, str)
    shown = repr(value) if is_plain else "..."
    return shown if "inf" not in shown and "nan" not in shown else "..."


def _is_written_out(value: Any) -> bool:
    return inspect.isfunction(value) and value.__module__.startswith("flambeau.")


def _public_names(module: types.ModuleType) -> list[str]:
    return sorted({name for name in dir(module) if not name.startswith("_")})


def gathered(module_name: str) -> str:
    """The stub of a module that only imports names."""
    module = import_module(module_name)
    stub = Stub(module_name)
    described = {"__version__": "_builtins.str"} if module_name == "flambeau" else {}
    for name in _public_names(module):
        value = getattr(module, name)
        if isinstance(value, types.ModuleType):
            _import_module_name(stub, module_name, name, value)
        elif isinstance(value, type):
            _import_class(stub, name, value)
        elif _is_written_out(value) and typing.get_overloads(value):
            stub.imports.add(f"from {value.__module__} import {name} as {name}")
        elif _is_written_out(value) and not keyword.iskeyword(name):
            stub.function(name, value)
        elif isinstance(value, int | float):
            described[name] = f"_builtins.{type(value).__name__}"
        elif value is None:
            described[name] = "None"
        else:
            described[name] = stub.name_of(type(value))
    stub.imports.add("import builtins as _builtins")
    stub.lines[:0] = [f"{name}: {kind}" for name, kind in sorted(described.items())]
    return stub.text()


def _import_module_name(stub: Stub, module: str, name: str, value: types.ModuleType) -> None:
    # A submodule of this package, not a module that the file has imported for itself.
    if value.__name__ in AnswerFinder.modules and value.__file__ == _answers.__file__:
        stub.imports.add("from types import ModuleType as _ModuleType")
        stub.lines.append(f"{name}: _ModuleType")
    elif value.__name__ == f"{module}.{name}":
        stub.imports.add(f"from {module} import {name} as {name}")


def _import_class(stub: Stub, name: str, value: type) -> None:
    home = value.__module__
    if home == "builtins":
        stub.lines.append(f"{name} = _builtins.{value.__name__}")
    elif sys.modules[home].__file__ == _answers.__file__:
        base = value.__base__
        shown = f"({base.__name__})" if base is not None and base.__module__ == home else ""
        stub.lines.append(f"class {name}{shown}: ...")
    elif getattr(import_module(home), value.__name__, None) is value:
        stub.imports.add(f"from {home} import {value.__name__} as {name}")


def methods() -> str:
    """The stub of the class with the methods that are bound to Tensor."""
    stub = Stub(METHODS)
    import_module("flambeau")
    own = _written_methods()
    stub.lines.append("class TensorMethods:")
    stub.lines.append('    """What operators, when they are declared, bind onto Tensor."""')
    for name, value in sorted(vars(Tensor).items()):
        if name in own or name in _OTHERWISE:
            continue
        if isinstance(value, bool):
            stub.lines.append(f"    {name}: {stub.name_of(bool)}")
        elif isinstance(value, _METHOD_TYPES):
            _add_method(stub, name, value)
    return stub.text()


_METHOD_TYPES = (types.FunctionType, property, classmethod, staticmethod)
# Methods of object, whose signatures pyright checks overrides against, and attributes that Python
# adds to each class.
_OTHERWISE = frozenset(
    ("__new__", "__init__", "__init_subclass__", "__getattribute__", "__setattr__", "__delattr__")
)


def _add_method(stub: Stub, name: str, value: Any) -> None:
    if isinstance(value, property):
        stub.lines.append(
            f"    @property\n    def {name}(self) -> {_property_type(stub, name)}: ..."
        )
        if value.fset is not None:
            stub.lines.append(
                f"    @{name}.setter\n    def {name}(self, value: {stub.any()}) -> None: ..."
            )
    elif isinstance(value, classmethod | staticmethod):
        stub.lines.append(f"    {name}: {stub.any()}")
    elif name.startswith("__") and name.endswith("__"):
        _add_special(stub, name, value)
    else:
        home = _deferred_home(name, value)
        stub.function(name, value if home is None else home, is_method=True)


def _property_type(stub: Stub, name: str) -> str:
    return stub.tensor() if name in ("T", "H", "mT", "mH", "real", "imag") else stub.any()


def _add_special(stub: Stub, name: str, value: Any) -> None:
    comparing = name in ("__eq__", "__ne__")
    code = value.__code__
    if code.co_qualname.startswith("attach."):
        ignored = "  # type: ignore[override]" if comparing else ""
        line = f"    def {name}(self, other: {stub.any()}) -> {stub.tensor()}: ...{ignored}"
        stub.lines.append(line)
    elif name in ("__neg__", "__abs__", "__invert__", "__pos__"):
        stub.lines.append(f"    def {name}(self) -> {stub.tensor()}: ...")
    elif name == "__getitem__":
        stub.lines.append(f"    def {name}(self, index: {stub.any()}) -> {stub.tensor()}: ...")
    else:
        stub.function(name, value, is_method=True)


def _deferred_home(name: str, value: Any) -> Any:
    """The method itself, if it is imported at its first call."""
    from flambeau._names import HOMES

    for home, names in HOMES.items():
        if f".{name}" in names.split():
            import_module(f"flambeau.{home}")
            return vars(Tensor)[name]
    return None


def _written_methods() -> frozenset[str]:
    """The names in the class bodies of Tensor and its bases."""
    found: set[str] = set()
    for file in ("tensor", "history", "host", "attributes"):
        tree = ast.parse((ROOT / "flambeau" / "core" / "values" / f"{file}.py").read_text())
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and node.name in _CLASSES:
                inside = [e.body for e in node.body if isinstance(e, ast.If)]
                for each in itertools.chain(node.body, *inside):
                    if isinstance(each, ast.FunctionDef):
                        found.add(each.name)
                    elif isinstance(each, ast.Assign):
                        found.update(t.id for t in each.targets if isinstance(t, ast.Name))
                    elif isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
                        found.add(each.target.id)
    return frozenset(found)


_CLASSES = ("Tensor", "History", "HostAccess", "Attributes")


def return_types() -> str:
    """The stub of the named tuples with tensor fields."""
    module = import_module(RETURN_TYPES)
    stub = Stub(RETURN_TYPES)
    stub.imports.add("from typing import NamedTuple as _NamedTuple")
    any_ = stub.any()
    stub.lines.append(f"def named(name: str, *fields: str) -> {any_}: ...")
    for name in module.__all__:
        stub.lines.append(f"class {name}(_NamedTuple):")
        fields = getattr(module, name)._fields
        kind = any_ if name == "histogramdd" else stub.tensor()
        stub.lines += [f"    {field}: {kind}" for field in fields]
    return stub.text()


def stubs() -> dict[Path, str]:
    """The path and text of every stub."""
    makers: dict[str, Callable[[], str]] = {METHODS: methods, RETURN_TYPES: return_types}
    for name in GATHERING:
        makers[name] = lambda name=name: gathered(name)
    return {_path_of(name): make() for name, make in makers.items()}


def _path_of(module: str) -> Path:
    folder = ROOT.joinpath(*module.split("."))
    return folder / "__init__.pyi" if folder.is_dir() else folder.with_suffix(".pyi")


def stale() -> list[str]:
    """The stubs that differ from the package."""
    return [
        str(path.relative_to(ROOT))
        for path, text in stubs().items()
        if not path.exists() or path.read_text() != text
    ]


def main() -> None:
    """Write the stubs, or fail if one is out of date."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, fail if one is old")
    if parser.parse_args().check:
        if found := stale():
            raise SystemExit(f"run python -m tools.stubs: {', '.join(found)} are out of date")
        return
    for path, text in stubs().items():
        path.write_text(text)


if __name__ == "__main__":
    main()
