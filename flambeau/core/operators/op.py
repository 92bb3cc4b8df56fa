"""Declaring operators: one pure function on arrays becomes a function, a method and their variants.

The annotations of the declaration say what each argument is: `Operand` (a tensor or number that
takes part in type promotion), `TensorOperand` (a tensor that does), `Array` (a tensor as it is;
where there is a default, or as `Array | Number`, a number too), `Arrays` (a sequence of tensors);
any other argument is static: it decides which program is compiled.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from flambeau.core.devices.compiler import has_unknown_size, is_portable, portable_forms
from flambeau.core.kernels import promotion, single_precision
from flambeau.core.kernels.kernel import Kernel
from flambeau.core.kernels.kinds import (
    ARRAY,
    ARRAYS,
    NONE,
    OPERAND,
    TENSOR,
    Kind,
    check_of,
    kinds_of,
)
from flambeau.core.operators.dispatch import FAILURES, run
from flambeau.core.operators.misfits import misfit
from flambeau.core.operators.number import Number
from flambeau.core.operators.older_signatures import in_present_order
from flambeau.core.operators.overrides import (
    OverrideNeeded,
    any_overrides,
    flattened,
    handle_torch_function,
    has_torch_function,
)
from flambeau.core.operators.python_operators import attach
from flambeau.core.operators.writing import make_in_place, put_out
from flambeau.core.support import dtype as dtypes
from flambeau.core.support import errors
from flambeau.core.support.generations import Generations
from flambeau.core.support.tracebacks import trim
from flambeau.core.values.tensor import Tensor

_ALIASES = {"A": "input", "axis": "dim", "keepdims": "keepdim", "x": "input"}
_all_ops: weakref.WeakSet[Op] = weakref.WeakSet()


def forget_kernels() -> None:
    """Drop every compiled operator, since something that tracing depends on has changed."""
    for each in _all_ops:
        each.kernels.clear()


dtypes.on_default_change(forget_kernels)


class Op:
    """A declared operator: splits its arguments, picks the kernel, runs it."""

    checks: list[Any]

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        self.function = function
        self.name: str | Any = (
            function.__name__.strip("_") if options["name"] is None else options["name"]
        )
        self.promote: Any = options["promote"]
        self.widen: Any = options["widen"]
        self.numbers: Any = options["numbers"]
        self.cast: Any = {
            "type": promotion.promote,
            "float": promotion.promote_to_float,
            None: None,
        }[self.promote]
        node = (
            options["node"] or "".join(w.capitalize() for w in self.name.split("_")) + "Backward0"
        )
        self.node_name: Any = node if callable(node) else lambda *static: node
        self.kernel_options: dict[str, Any] = {
            "linear": options["linear"],
            "keep_residuals": options["keep_residuals"],
            "differentiable": options["differentiable"],
            "returns": options["returns"],
            "overloads": options["overloads"],
        }
        self.kernels: Generations = Generations()
        self.face: Any = None
        self._read_signature()
        _all_ops.add(self)

    def described_by(self) -> tuple[Any, ...]:
        """The identity of this operator's computation, besides its static arguments."""
        return self.name, self.promote, self.widen, self.function

    def _read_signature(self) -> None:
        function = self.function
        keyword_defaults = function.__kwdefaults__ or {}
        self.names: tuple[str, ...] = _parameter_names(function)
        self.position: dict[str, int] = {name: i for i, name in enumerate(self.names)}
        self.positional: int = function.__code__.co_argcount
        self.keyword_only: int = len(self.names) - self.positional
        # In the order of the declaration; the required parameters come first.
        self.defaults: tuple[Any, ...] = (
            *(function.__defaults__ or ()),
            *(keyword_defaults[name] for name in self.names[self.positional :]),
        )
        self.required: int = len(self.names) - len(self.defaults)
        kinds = [kinds_of(function, name) for name in self.names]
        self.dynamic: list[int] = [i for i, (first, *_) in enumerate(kinds) if first.is_operand]
        self.static: list[int] = [i for i in range(len(kinds)) if i not in self.dynamic]
        self.operands: list[int] = [
            n for n, i in enumerate(self.dynamic) if not {OPERAND, TENSOR}.isdisjoint(kinds[i])
        ]
        self.sequences: list[int] = [i for i, each in enumerate(kinds) if ARRAYS in each]
        # The places of dynamic arguments that cannot be None, and whether they can be a number.
        self.needed: list[tuple[int, str, bool]] = [
            (n, self.names[i], self._takes_number(i, kinds[i]))
            for n, i in enumerate(self.dynamic)
            if NONE not in kinds[i] and self._default(i) is not None
        ]
        self.checks = [
            (n, self.names[i], check)
            for n, i in enumerate(self.static)
            # An unknown reduction is PyTorch's ValueError.
            if (check := check_of(kinds[i])) is not None and self.names[i] != "reduction"
        ]
        # Floats and ints that compare equal are different programs.
        self.typed: bool = any(each.counts_type for i in self.static for each in kinds[i])
        # The positions of keyword arguments, and the defaults after the positional ones, by the
        # number of these and the names of those.
        self._bound: dict[tuple[Any, ...], tuple[list[int], list[Any]]] = {}
        # The position of the first static argument, if all others come first and are single.
        leading = self.dynamic == list(range(len(self.dynamic))) and not self.sequences
        self.split: int | None = len(self.dynamic) if leading else None

    def _default(self, position: int) -> Any:
        """The default of a parameter; ``_MISSING`` if it is required."""
        return self.defaults[position - self.required] if position >= self.required else _MISSING

    def _takes_number(self, position: int, kinds: tuple[Kind, ...]) -> bool:
        return kinds != (TENSOR,) and (kinds != (ARRAY,) or position >= self.required)

    def __call__(self, args: tuple[Any, ...], bare: bool = False) -> Any:
        """Run on arguments in the order of the declaration, all of them given; see `run`."""
        split = self.split
        if split is not None:
            inputs, static = args[:split], args[split:]
        elif self.sequences:
            return self._run_flattened(args)
        else:
            inputs = tuple([args[i] for i in self.dynamic])
            static = tuple([args[i] for i in self.static])
        try:
            kernel = self.kernels[(static, tuple(map(type, static))) if self.typed else static]
        except (KeyError, TypeError):
            kernel = self.kernel(static)
        return run(kernel, inputs, bare)

    def kernel(self, static: tuple[Any, ...], lengths: tuple[int, ...] = ()) -> Kernel:
        """The kernel with these static arguments bound."""
        static = tuple(map(_hashable, static))
        key: Any = (static, tuple(map(type, static))) if self.typed else static
        key = (key, lengths) if self.sequences else key
        try:
            kernel = self.kernels[key]
        except KeyError:
            # A stand-in for a tensor may also stand in for a number.
            if any_overrides(static):
                raise OverrideNeeded from None
            for place, name, check in self.checks:
                check(self.name, name, static[place])
            function = functools.partial(self._apply, static, lengths)
            kernel = Kernel(function, self.name, self.node_name(*static), **self.kernel_options)
            self.kernels[key] = kernel
        return kernel

    def _run_flattened(self, args: tuple[Any, ...]) -> Any:
        inputs: list[Any] = []
        lengths: list[int] = []
        for i in self.dynamic:
            if i in self.sequences:
                members = self._members(args[i], i)
                lengths.append(len(members))
                inputs.extend(members)
            else:
                inputs.append(args[i])
        static = tuple([args[i] for i in self.static])
        return run(self.kernel(static, tuple(lengths)), tuple(inputs))

    def _members(self, value: Any, position: int) -> tuple[Any, ...]:
        if not isinstance(value, list | tuple):
            if any_overrides((value,)):
                raise OverrideNeeded
            raise TypeError(
                f"{self.name}(): {self.names[position]} must be a list or tuple of Tensors, "
                f"got {type(value).__name__}"
            )
        for n, each in enumerate(value):
            if not isinstance(each, Tensor) and not has_torch_function((each,)):
                raise TypeError(
                    f"{self.name}(): {self.names[position]}[{n}] must be a Tensor, "
                    f"got {type(each).__name__}"
                )
        return tuple(value)

    def _apply(self, static: tuple[Any, ...], lengths: tuple[int, ...], *arrays: Any) -> Any:
        """The declared function, from arrays and bound static arguments."""
        if not is_portable() and has_unknown_size(arrays):
            with portable_forms():
                return self._apply(static, lengths, *arrays)
        values: list[Any] = list(arrays)
        if not self.sequences:
            self._check_needed(values)
            if self.numbers and all(map(promotion.is_number, values)):
                values = [promotion.as_tensor(each) for each in values]
        else:
            values, arrays_left, remaining = [], list(arrays), list(lengths)
            for i in self.dynamic:
                count = remaining.pop(0) if i in self.sequences else None
                if count is None:
                    values.append(arrays_left.pop(0))
                else:
                    values.append(tuple(arrays_left[:count]))
                    del arrays_left[:count]
        narrow = single_precision.half_of(values, bool(self.operands)) if self.widen else None
        if narrow is not None:
            values = single_precision.widened(values)
        if self.cast is not None:
            values = self._promoted(values)
        full: list[Any] = [None] * len(self.names)
        for i, value in zip(self.dynamic, values, strict=True):
            full[i] = value
        for i, value in zip(self.static, static, strict=True):
            full[i] = value
        positional = len(full) - self.keyword_only
        keywords = dict(zip(self.names[positional:], full[positional:], strict=True))
        results = self.function(*full[:positional], **keywords)
        return results if narrow is None else single_precision.narrowed(results, narrow)

    def _check_needed(self, values: list[Any]) -> None:
        for place, name, takes_number in self.needed:
            value = values[place]
            if value is None:
                expected = "a Tensor or a number" if takes_number else "a Tensor"
                raise errors.TypeError(f"{self.name}(): {name} must be {expected}, got None")
            if not takes_number and promotion.is_number(value):
                kind = getattr(value, "dtype", type(value).__name__)
                raise errors.TypeError(
                    f"{self.name}(): {name} must be a Tensor, got a {kind} number"
                )

    def _promoted(self, values: list[Any]) -> list[Any]:
        taking = [n for n in self.operands if values[n] is not None]
        assert self.cast is not None
        cast = self.cast(*(values[n] for n in taking))
        for n, value in zip(taking, cast, strict=True):
            values[n] = value
        return values

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """All arguments in the order of the declaration, defaults filled in.

        Raises:
            TypeError: One is missing, unknown or given twice, or there are too many.
        """
        given = len(args)
        known = self._bound.get((given, *kwargs))
        if known is not None:
            positions, rest = known
            values = [*args, *rest]
            for position, value in zip(positions, kwargs.values(), strict=True):
                values[position] = value
            return tuple(values)
        if given > self.positional:
            older = in_present_order(self.name, args)
            if older is not None:
                return self.bind(older[0], {**older[1], **kwargs})
            raise TypeError(
                f"{self.name}() takes {self.positional} positional arguments, got {given}"
            )
        rest = [*[_MISSING] * max(0, self.required - given)]
        rest += self.defaults[given + len(rest) - self.required :]
        values, positions = [*args, *rest], [*map(self._position_of, kwargs)]
        for name, position in zip(kwargs, positions, strict=True):
            if position < given:
                raise TypeError(f"{self.name}() got the argument '{name}' twice")
            values[position] = kwargs[name]
        for name, value in zip(self.names, values, strict=True):
            if value is _MISSING:
                raise TypeError(f"{self.name}() needs the argument '{name}'")
        self._bound[given, *kwargs] = positions, rest
        return tuple(values)

    def _position_of(self, name: str) -> int:
        position = self.position.get(name)
        if position is None:
            position = self.position.get(_ALIASES.get(name, ""))
        if position is None:
            known = ", ".join(self.names)
            raise TypeError(f"{self.name}() has no argument '{name}'; it has {known}")
        return position


_MISSING = object()


def _hashable(value: Any) -> Any:
    """A static argument in the form that identifies a kernel."""
    if isinstance(value, list | tuple):
        return tuple(map(_hashable, value))
    if isinstance(value, Number):
        return value.read()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Tensor):
        # An array of several elements is refused as an argument of the wrong type.
        return value.item() if value.numel() == 1 else value
    return dtypes.of_python_type(value) if isinstance(value, type) else value


def op(
    function: Callable[..., Any] | None = None,
    *,
    method: bool | str = False,
    inplace: bool = False,
    operator: str | None = None,
    promote: str | None = None,
    widen: bool = False,
    numbers: bool = False,
    node: str | Callable[..., str] | None = None,
    overloads: dict[str, str] | None = None,
    linear: bool = False,
    keep_residuals: bool = False,
    differentiable: bool = True,
    returns: Any = None,
    name: str | None = None,
) -> Callable[..., Any]:
    """Declare an operator.

    Args:
        function: The computation, on JAX arrays; its parameters carry PyTorch's names, order and
            defaults.
        method: Make it a Tensor method too, under the function's name or the one given.
        inplace: Make ``name_`` too, a method and a function that overwrite their first argument.
        operator: The Python operator that it implements: ``"add"`` makes ``__add__``,
            ``__radd__`` and, with ``inplace``, ``__iadd__``.
        promote: ``"type"`` casts the `Operand` arguments to their common dtype, ``"float"`` raises
            integers to the default floating dtype as well.
        widen: Half precision is computed in single precision, sums of gradients over broadcast
            dimensions included, and each result is rounded once.
        numbers: All arguments may be numbers, which then count as 0-d tensors.
        node: The class name of the node on the tape, where it is not the operator's own; a function
            of the static arguments where it depends on them.
        overloads: The names of the node, if they depend on which inputs are tensors; see `Kernel`.
        linear: The gradient needs the shapes of the inputs only.
        keep_residuals: Keep JAX's residuals rather than running the forward again.
        differentiable: ``False`` if the result never takes a gradient.
        returns: The named tuple type that several results come in.
        name: The operator's name, where the function's cannot be used.

    Returns:
        The public function with PyTorch's signature, which also takes ``out=``.
    """
    options = {
        "promote": promote, "widen": widen, "numbers": numbers, "node": node,
        "overloads": overloads, "linear": linear, "keep_residuals": keep_residuals,
        "differentiable": differentiable, "returns": returns, "name": name,
    }  # fmt: skip

    def declare(function: Callable[..., Any]) -> Callable[..., Any]:
        declared = Op(function, options)
        face = make_face(declared)
        if method:
            setattr(Tensor, method if isinstance(method, str) else declared.name, face)
        if operator:
            attach(operator, face, make_in_place(face, operator) if inplace else None)
        if inplace:
            in_place = make_in_place(face, declared.name)
            setattr(Tensor, in_place.__name__, in_place)
            face.in_place = in_place
        return face

    return declare if function is None else declare(function)


def make_face(declared: Op) -> Any:
    """The public function of an operator."""
    total = len(declared.names)
    required, defaults = declared.required, declared.defaults
    positional = total - declared.keyword_only
    all_positional = -1 if declared.keyword_only else total
    call = declared.__call__

    def face(*args: Any, **kwargs: Any) -> Any:
        given = len(args)
        try:
            if kwargs:
                return with_keywords(args, kwargs)
            if given == all_positional:
                return call(args)
            if given < required or given > positional:
                return call(declared.bind(args, kwargs))
            return call(args + defaults[given - total :])
        except OverrideNeeded:
            return handle_torch_function(declared.face, flattened(args), *args)
        except Exception as error:
            trim(error)
            raise

    def with_keywords(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        given = dict(kwargs)
        out = kwargs.pop("out", None)
        if any_overrides((out,)):
            return handle_torch_function(declared.face, flattened((*args, out)), *args, **given)
        try:
            result = call(declared.bind(args, kwargs))
        except OverrideNeeded:
            values = flattened((*args, *given.values()))
            return handle_torch_function(declared.face, values, *args, **given)
        return result if out is None else put_out(out, result, declared.name, args)

    def bare(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """`face`, which may give an array in place of a Tensor that takes no gradient."""
        given = len(args)
        if kwargs or given < required or given > positional:
            args = declared.bind(args, kwargs)
        elif given != all_positional:
            args += defaults[given - total :]
        return call(args, True)

    functools.update_wrapper(face, declared.function)
    face.__name__ = declared.name
    face.bare = bare  # type: ignore[attr-defined]
    face.op = declared  # type: ignore[attr-defined]
    declared.face = face
    return face


def function(declared: Callable[..., Any] | None = None, *, method: bool | str = False) -> Any:
    """Declare a public function of tensors that is composed of other operators.

    It takes ``out=`` and honours ``__torch_function__`` as an operator does.

    Args:
        declared: The function, written on Tensors.
        method: Make it a Tensor method too, under its own name or the one given.
    """

    def declare(inner: Callable[..., Any]) -> Callable[..., Any]:
        names = _parameter_names(inner)
        takes_out = "out" in names
        aliases = {a: n for a, n in _ALIASES.items() if n in names and a not in names}

        @functools.wraps(inner)
        def face(*args: Any, **kwargs: Any) -> Any:
            values = (*args, *kwargs.values()) if kwargs else args
            if any_overrides(values):
                return handle_torch_function(face, flattened(values), *args, **kwargs)
            if kwargs and aliases:
                kwargs = {aliases.get(name, name): value for name, value in kwargs.items()}
            takes_all = not kwargs or takes_out or "out" not in kwargs
            try:
                if takes_all:
                    return inner(*args, **kwargs)
                out = kwargs.pop("out")
                result = inner(*args, **kwargs)
                return result if out is None else put_out(out, result, inner.__name__, args)
            except Exception as error:
                if takes_all and isinstance(error, TypeError):
                    older = in_present_order(inner.__name__, args) if len(args) > 2 else None
                    if older is not None:
                        return face(*older[0], **older[1], **kwargs)
                elif takes_all and isinstance(error, (*FAILURES, RuntimeError)):
                    blamed = misfit(inner, args, kwargs)
                    if blamed is not None:
                        raise blamed from None
                trim(error)
                raise

        if method:
            setattr(Tensor, method if isinstance(method, str) else inner.__name__, face)
        return face

    return declare if declared is None else declare(declared)


def _parameter_names(function: Callable[..., Any]) -> tuple[str, ...]:
    code = function.__code__
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
