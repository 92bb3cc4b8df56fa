"""Operators over lists of tensors: `flambeau._foreach_add_` and the like, by PyTorch's names.

A call for a list of tensors on one device is one program.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from flambeau.core.kernels.kernel import Kernel
from flambeau.core.operators.dispatch import run
from flambeau.core.operators.overrides import OverrideNeeded
from flambeau.core.operators.viewing import leaf_error
from flambeau.core.operators.writing import all_or_none, check_fit, put
from flambeau.core.programs import finishing
from flambeau.core.support import dtype as dtypes
from flambeau.core.support.generations import remembered
from flambeau.core.support.modes import modes
from flambeau.core.values.tensor import Tensor
from flambeau.ops.elementwise.arithmetic import add_scaled, sub_scaled
from flambeau.ops.elementwise.selection import clamp_max, clamp_min
from flambeau.ops.matrices.norms import vector_norm

__all__ = ["foreach"]

_OF_ONE = frozenset([
    "abs", "acos", "asin", "atan", "ceil", "clone", "cos", "cosh", "erf", "erfc", "exp", "expm1",
    "floor", "frac", "lgamma", "log", "log10", "log1p", "log2", "neg", "reciprocal", "round",
    "rsqrt", "sigmoid", "sign", "sin", "sinh", "sqrt", "tan", "tanh", "trunc", "zero_",
])  # fmt: skip
_NEEDED = object()
# The operands besides the list of tensors, in order, with their defaults.
_OPERANDS: dict[str, dict[str, Any]] = {
    "add": {"other": _NEEDED, "alpha": 1},
    "addcdiv": {"tensor1": _NEEDED, "tensor2": _NEEDED, "value": 1},
    "addcmul": {"tensor1": _NEEDED, "tensor2": _NEEDED, "value": 1},
    "clamp_max": {"other": _NEEDED},
    "clamp_min": {"other": _NEEDED},
    "copy_": {"src": _NEEDED, "non_blocking": False},
    "div": {"other": _NEEDED},
    "lerp": {"tensors1": _NEEDED, "weight": _NEEDED},
    "maximum": {"other": _NEEDED},
    "minimum": {"other": _NEEDED},
    "mul": {"other": _NEEDED},
    "norm": {"ord": 2, "dtype": None},
    "pow": {"exponent": _NEEDED},
    "sub": {"other": _NEEDED, "alpha": 1},
}
# The functions that compute them, if not the method of the same name; that of `maximum` takes only
# tensors.
_OPERATORS: dict[str, Any] = {
    "add": add_scaled, "maximum": clamp_min, "minimum": clamp_max, "norm": vector_norm,
    "sub": sub_scaled,
}  # fmt: skip
_SECOND_NAMES = {"scalar": "other", "scalars": "other", "tensor": "other", "weights": "weight"}
_IN_PLACE_ONLY = ("copy_", "zero_")
_NEW_ONLY = ("clone", "norm")


@functools.cache
def foreach(name: str) -> Callable[..., Any]:
    """The function ``_foreach_{name}``; one with an ``_`` at the end overwrites the tensors.

    It takes a list of tensors. A further operand is a list with one value for each tensor, or one
    value for all. It returns a tuple or, if it overwrites the tensors, the given list; all results
    share one node of the tape.

    Raises:
        AttributeError: There is no such function.
        TypeError: The argument is not a list of tensors, or there are too few or too many operands.
        RuntimeError: The list is empty, operands have other lengths, or a leaf would be overwritten
            while gradients are recorded; see also the operator.

    >>> import flambeau
    >>> averages = [flambeau.zeros(2), flambeau.zeros(1)]
    >>> flambeau._foreach_lerp_(averages, [flambeau.ones(2), flambeau.ones(1)], 0.25)
    [tensor([0.2500, 0.2500]), tensor([0.2500])]
    """
    full = f"_foreach_{name}"
    stem = name if name in _IN_PLACE_ONLY else name.removesuffix("_")
    known = stem in _OF_ONE or stem in _OPERANDS
    if not known or (name.endswith("_") and stem in _NEW_ONLY):
        raise AttributeError(f"module 'flambeau' has no attribute '{full}'")

    def function(self: Any, *args: Any, **kwargs: Any) -> Any:
        rows = _rows(full, self, _operands(full, stem, args, kwargs))
        if stem in _IN_PLACE_ONLY:

            def change() -> None:
                for tensor, *others in rows:
                    getattr(tensor, stem)(*others)

            all_or_none(self, change)
            return self
        if not name.endswith("_"):
            return _computed(stem, rows)
        for each in self:
            if modes.grad_enabled and each.requires_grad and each.is_leaf:
                raise leaf_error(each, full)
        results = _computed(stem, rows)
        # All or none of them.
        for each, result in zip(self, results, strict=True):
            check_fit(each, result, full)

        def write(_: Any) -> None:
            for each, result in zip(self, results, strict=True):
                put(each, result, full)

        finishing.finish(write)
        return self

    function.__name__ = function.__qualname__ = full
    function.__doc__ = (
        f"`Tensor.{name}` of each tensor of a list; see `flambeau.rare.foreach.foreach`."
    )
    return function


def _operands(
    full: str, stem: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, ...]:
    """The operands besides the list of tensors, with defaults."""
    usual = _OPERANDS.get(stem, {})
    given = dict(zip(usual, args, strict=False))
    named = {_SECOND_NAMES.get(name, name): value for name, value in kwargs.items()}
    operands = {**usual, **given, **named}
    if (
        len(args) > len(usual)
        or given.keys() & named.keys()
        or operands.keys() != usual.keys()
        or any(each is _NEEDED for each in operands.values())
    ):
        raise TypeError(f"{full}() takes {', '.join(['a list of tensors', *usual])}")
    return tuple(operands.values())


def _rows(full: str, tensors: Any, operands: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    """The operands of each result: a tensor of the list and its operands."""
    if not isinstance(tensors, list | tuple):
        raise TypeError(f"{full}() takes a list of tensors, got {type(tensors).__name__}")
    for number, each in enumerate(tensors):
        if not isinstance(each, Tensor):
            raise TypeError(f"{full}(): element {number} is not a tensor but {type(each).__name__}")
    if not tensors:
        raise RuntimeError(f"{full}() needs at least one tensor")
    columns = [tensors]
    for each in operands:
        # PyTorch also converts numbers for all of them to a vector.
        column = each.unbind(0) if isinstance(each, Tensor) and each.ndim == 1 else each
        if not isinstance(column, list | tuple):
            column = (column,) * len(tensors)
        if len(column) != len(tensors):
            raise RuntimeError(f"{full}(): lists of {len(tensors)} and of {len(column)} differ")
        columns.append(column)
    return list(zip(*columns, strict=True))


def _computed(stem: str, rows: list[tuple[Any, ...]]) -> tuple[Tensor, ...]:
    operator = _OPERATORS.get(stem) or getattr(Tensor, stem)
    calls = [_call(stem, row) for row in rows]
    declared = getattr(operator, "op", None)
    if declared is not None and len({tensor.device for tensor, *_ in rows}) == 1:
        bound = [declared.bind(args, kwargs) for args, kwargs in calls]
        inputs = tuple([values[i] for values in bound for i in declared.dynamic])
        static = tuple([bound[0][i] for i in declared.static])
        try:
            return run(_kernel(declared, static, len(rows)), inputs)
        except OverrideNeeded:
            pass
    return tuple([operator(*args, **kwargs) for args, kwargs in calls])


def _call(stem: str, row: tuple[Any, ...]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of the operator for one tensor."""
    if stem == "norm":
        tensor, order, dtype = row
        return (tensor,), {"p": float(order), "dtype": dtype}
    if stem in ("addcdiv", "addcmul"):
        return row[:3], {"value": row[3]}
    return row, {}


@remembered
def _kernel(declared: Any, static: tuple[Any, ...], count: int) -> Kernel:
    """The kernel that applies an operator to each tensor."""
    one = declared.kernel(static)
    width = len(declared.dynamic)

    def all_of_them(*arrays: Any) -> tuple[Any, ...]:
        return tuple(one.function(*arrays[i * width : (i + 1) * width]) for i in range(count))

    name = f"foreach_{declared.name}"
    node = "".join(word.capitalize() for word in name.split("_")) + "Backward0"
    return Kernel(all_of_them, name, node, linear=one.linear, differentiable=one.differentiable)


dtypes.on_default_change(_kernel.cache_clear)
