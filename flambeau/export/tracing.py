"""Tracing a model into a program for every open size and several platforms."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax import export as jax_export

from flambeau.compile.errors import user_line
from flambeau.core.devices.compiler import portable_forms
from flambeau.core.support.modes import modes, no_grad
from flambeau.core.support.tracebacks import trimmed
from flambeau.core.values.tensor import Tensor
from flambeau.core.values.trace import TracedValueError
from flambeau.export import structure
from flambeau.export.dims import OpenSizes, entries_of, exact_sizes
from flambeau.export.facts import PLATFORMS, Entry, Facts
from flambeau.export.program import ExportedProgram
from flambeau.func.functional_call import functional_call
from flambeau.nn.module import Module

__all__ = ["export"]

# JAX's and Python's words for a size that has no value.
_OF_SIZES = re.compile("symbolic dimension|_DimExpr|dimension variable", re.IGNORECASE)
# The words of other errors of a trace.
_OF_VALUES = "the value of a tensor is not known"
_OF_DRAWS = "random numbers are drawn"
_OF_ATTRIBUTES = re.compile(r"functional_call\(\): .* assigned (\[.*\])")
_VALUE_ERRORS = (
    TracedValueError, jax.errors.ConcretizationTypeError, jax.errors.TracerArrayConversionError,
)  # fmt: skip


class _Function(Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The function's result."""
        return self.function(*args, **kwargs)


@trimmed
def export(
    mod: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    strict: bool = False,
    platforms: Sequence[str] | None = None,
) -> ExportedProgram:
    """A program of a model's forward, which needs neither the model's class nor its source.

    Parameters and buffers are its inputs and travel with it. All else that forward reads outside
    its arguments, such as an attribute or a branch that it takes, is fixed. The program has the
    model's mode: call ``model.eval()`` first. Operators have their plain forms, for any machine.

    Args:
        mod: A module, or a function of tensors.
        args: The example's positional arguments. Tensors and arrays become inputs of the program;
            numbers, str, bool and None are constants of it.
        kwargs: The example's keyword arguments.
        dynamic_shapes: The sizes that stay open: an entry for each argument, in a dict by the names
            of forward's parameters, or in a tuple. An entry is ``None`` for the example's sizes; a
            dict ``{dimension: Dim}``; or a list or tuple of a `Dim` or ``None`` per dimension. The
            entry of a container is a container of entries.
        strict: Accepted for compatibility: there is one way to trace.
        platforms: Where the program will run: any of ``"cpu"``, ``"cuda"``, ``"rocm"``, ``"tpu"``.
            By default this machine's.

    Raises:
        TypeError: ``mod`` cannot be called; the arguments or results have members of other types.
        ValueError: ``dynamic_shapes`` does not fit the arguments, or there is no such platform.
        RuntimeError: Forward depends in Python on an open size or on a tensor's value, changes
            buffers, or draws random numbers.

    >>> import flambeau
    >>> from flambeau.export import export
    >>> batch = flambeau.export.Dim("batch")
    >>> x = flambeau.ones(2, 3)
    >>> program = export(lambda x: x * 2, (x,), dynamic_shapes={"x": {0: batch}})
    >>> program(flambeau.ones(1, 3))
    tensor([[2., 2., 2.]])
    """
    if not callable(mod):
        raise TypeError(f"export(): mod must be a Module or a function, got {mod!r:.80}")
    if not isinstance(args, tuple):
        raise TypeError(
            f"Expecting `args` to be a tuple of example positional inputs, got {type(args)}"
        )
    module = mod if isinstance(mod, Module) else _Function(mod)
    wanted = _checked_platforms(platforms)
    named = _by_name(mod, args, kwargs or {})
    inputs, arguments, open_sizes = _inputs_of(named, args, kwargs or {}, dynamic_shapes)
    symbols = open_sizes.symbols()
    state, tied = _state_of(module)
    trace = _Trace(module, [*state], arguments)
    shapes = [
        *(jax.ShapeDtypeStruct(tuple(each.shape), each.dtype.numpy) for each in state.values()),
        *(_struct(each, symbols) for each in inputs),
    ]
    was_exporting, modes.exporting = modes.exporting, True
    try:
        with portable_forms(), exact_sizes():
            traced = jax.jit(trace, keep_unused=True)
            exported = jax_export.export(traced, platforms=wanted)(*shapes)
            # Not traced again.
            jaxpr = traced.trace(*shapes).jaxpr
    except Exception as error:
        if (explained := _explained(error, open_sizes, module)) is None:
            raise
        raise explained from error
    finally:
        modes.exporting = was_exporting
    outputs = tuple(
        Entry(name, aval.dtype.name, tuple(e if isinstance(e, int) else str(e) for e in aval.shape))
        for name, aval in zip(trace.outputs, exported.out_avals, strict=True)
    )
    parameters = {name for name, _ in module.named_parameters()}
    facts = Facts(
        name=type(mod).__name__
        if isinstance(mod, Module)
        else getattr(mod, "__name__", "function"),
        parameters=tuple(each for each in state if each in parameters),
        buffers=tuple(each for each in state if each not in parameters),
        tied=tied,
        inputs=inputs,
        outputs=outputs,
        positional=tuple(name for name, _ in named[: len(args)]),
        arguments=arguments,
        result=trace.result,
        bounds=open_sizes.bounds,
        platforms=tuple(exported.platforms),
    )
    kept = {name: each.detach().clone() for name, each in state.items()}
    kept |= {name: kept[first] for name, first in tied.items()}
    return ExportedProgram(exported, facts, kept, jaxpr)


class _Trace:
    """A module's forward on arrays: of the state, and then of the inputs.

    Attributes:
        result: The structure of the result, after the trace.
        outputs: The names of the tensors in it.
    """

    def __init__(self, module: Module, state: list[str], arguments: structure.Structure) -> None:
        self._module = module
        self._state = state
        self._arguments = arguments
        self.result: structure.Structure = {}
        self.outputs: list[str] = []

    def __call__(self, *arrays: Any) -> tuple[Any, ...]:
        tensors = [Tensor._wrap(each) for each in arrays]
        state = dict(zip(self._state, tensors, strict=False))
        args, kwargs = structure.put_together(self._arguments, tensors[len(state) :])
        given = dict(state)
        with no_grad():
            result = functional_call(self._module, state, args, kwargs)
        changed = [n for n, each in given.items() if state[n] is not each or each._cell.version]
        if changed:
            raise RuntimeError(
                f"export(): forward changes {changed}, and a program changes nothing; call eval() "
                "on the model first, or return the new values"
            )
        found: list[tuple[str, Any]] = []
        self.result = structure.take_apart(result, "result", found)
        self.outputs = [name for name, _ in found]
        return tuple(e._read() if isinstance(e, Tensor) else jax.numpy.asarray(e) for _, e in found)


def _checked_platforms(platforms: Sequence[str] | None) -> list[str] | None:
    if platforms is None:
        return None
    wanted = [platforms] if isinstance(platforms, str) else list(platforms)
    wrong = [each for each in wanted if each not in PLATFORMS]
    if wrong or not wanted:
        raise ValueError(f"export(): platforms are some of {', '.join(PLATFORMS)}, got {platforms}")
    return list(dict.fromkeys(wanted))


def _by_name(mod: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[tuple[str, Any]]:
    """Each argument with its name, those by position first.

    Raises:
        TypeError: The function does not take them.
    """
    forward = mod.forward if isinstance(mod, Module) else mod
    try:
        signature = inspect.signature(forward)
    except (TypeError, ValueError):  # a function without one
        return [*((f"arg{i}", each) for i, each in enumerate(args)), *kwargs.items()]
    signature.bind(*args, **kwargs)
    names: list[str] = []
    for name, each in signature.parameters.items():
        if each.kind is each.VAR_POSITIONAL:
            names += [f"{name}[{i}]" for i in range(len(args) - len(names))]
        elif each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD):
            names.append(name)
    return [*zip(names, args, strict=False), *kwargs.items()]


def _entries(named: list[tuple[str, Any]], dynamic_shapes: Any) -> dict[str, Any]:
    """The entry of ``dynamic_shapes`` for each argument, by name."""
    names = [name for name, _ in named]
    if dynamic_shapes is None:
        return {}
    if isinstance(dynamic_shapes, list | tuple):
        if len(dynamic_shapes) != len(names):
            raise ValueError(
                f"dynamic_shapes: {len(dynamic_shapes)} entries for the arguments {names}"
            )
        return dict(zip(names, dynamic_shapes, strict=True))
    if not isinstance(dynamic_shapes, dict):
        raise TypeError(f"dynamic_shapes must be a dict, tuple or list, got {dynamic_shapes!r:.80}")
    found: dict[str, Any] = {}
    for name, spec in dynamic_shapes.items():
        collected = [each for each in names if each.startswith(f"{name}[")]
        if name not in names and collected and isinstance(spec, list | tuple):
            found |= zip(collected, spec, strict=False)
        else:
            found[name] = spec
    if unknown := [name for name in found if name not in names]:
        raise ValueError(f"dynamic_shapes has {unknown}, but the arguments are {names}")
    return found


def _inputs_of(
    named: list[tuple[str, Any]], args: tuple[Any, ...], kwargs: dict[str, Any], dynamic_shapes: Any
) -> tuple[tuple[Entry, ...], structure.Structure, OpenSizes]:
    """The inputs of a program, the structure of its arguments, and the open sizes."""
    specs = _entries(named, dynamic_shapes)
    found: list[tuple[str, Any]] = []
    parts = [structure.take_apart(value, name, found) for name, value in named]
    keywords = [[name, part] for name, part in zip(kwargs, parts[len(args) :], strict=True)]
    arguments = {"tuple": [{"tuple": parts[: len(args)]}, {"dict": keywords}]}
    open_sizes = OpenSizes()
    entries = [e for name, value in named for e in entries_of(value, specs.get(name), name)]
    inputs = [
        Entry(name, _dtype_of(each).name, open_sizes.shape(name, each.shape, entry))
        for (name, each), entry in zip(found, entries, strict=True)
    ]
    return tuple(inputs), arguments, open_sizes


def _dtype_of(value: Any) -> Any:
    return value.dtype.numpy if isinstance(value, Tensor) else np.dtype(value.dtype)


def _struct(entry: Entry, symbols: dict[str, Any]) -> jax.ShapeDtypeStruct:
    shape = tuple(symbols[each] if isinstance(each, str) else each for each in entry.shape)
    return jax.ShapeDtypeStruct(shape, jax.numpy.dtype(entry.dtype))


def _state_of(module: Module) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The parameters and buffers by name, and the further names of each.

    Raises:
        RuntimeError: One has no elements.
    """
    state = dict(module.named_parameters()) | dict(module.named_buffers())
    empty = [name for name, each in state.items() if each.is_meta]
    if empty:
        raise RuntimeError(
            f"export(): {empty} have no elements (meta device); materialize the model"
        )
    first = {id(each): name for name, each in state.items()}
    every = [
        *module.named_parameters(remove_duplicate=False),
        *module.named_buffers(remove_duplicate=False),
    ]
    return state, {name: first[id(each)] for name, each in every if name not in state}


def _explained(error: Exception, open_sizes: OpenSizes, module: Module) -> Exception | None:
    """The error of a trace in the words of export; ``None`` to leave it as it is."""
    text = str(error).partition("\n")[0].rstrip(".")
    line = user_line(error.__traceback__, "")
    place = f"\n{line}" if line else ""
    first = "Compute"
    if not isinstance(module, _Function) and module.training:
        first = (
            "In training mode, layers such as BatchNorm look at the batch: call eval() on the "
            "model first. Otherwise compute"
        )
    if isinstance(error, jax.errors.InconclusiveDimensionOperation) or _OF_SIZES.search(text):
        names = [each for each in open_sizes.bounds if re.search(rf"\b{each}\b", text)]
        reason = (
            f"depends in Python on the value of the open size "
            f"{' or '.join(map(repr, names or open_sizes.bounds))} ({text}). {first} with "
            "tensors; give the Dim a min or max, with one answer for all sizes; or leave the size "
            "fixed"
        )
    elif isinstance(error, _VALUE_ERRORS) or _OF_VALUES in text:
        reason = (
            "asks in Python for the value of a tensor. Compute with the tensor itself, or use "
            "flambeau.where for a choice"
        )
    elif _OF_DRAWS in text:
        reason = "draws random numbers. Call eval() on the model first, or make them an input"
    elif found := _OF_ATTRIBUTES.match(text):
        reason = f"assigns {found[1]}, and a program changes nothing. Return the value instead"
    else:
        return None
    return RuntimeError(f"export(): forward {reason}{place}")
