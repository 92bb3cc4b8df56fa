"""The gradient of every differentiable operator is what finite differences say it is."""

from __future__ import annotations

import importlib
import pkgutil

import pytest

import flambeau.ops
import flambeau.rare
from flambeau.autograd import gradcheck, gradgradcheck
from flambeau.core.kernels.kernel import INEXACT
from flambeau.core.operators import op as declarations
from flambeau.core.tape import packing
from flambeau.core.values import steps
from flambeau.core.values.tensor import Tensor
from tests.autograd.gradient_rows import elementwise, layers, losses, matrices, reductions, shapes

ROWS = [
    row for module in (elementwise, reductions, shapes, matrices, layers, losses)
    for row in module.ROWS
]  # fmt: skip

#: Differentiable operators, and kinds of views, without a row, and why.
WITHOUT_A_ROW = {
    "arithmetic.floor_divide": "has none, by PyTorch's documentation",
    "selection.heaviside": "has none, by PyTorch's documentation",
    "grouped.grouped_mm": "takes no double precision; compared with PyTorch's in tests/conformance",
    "activation.not_differentiated": "refuses its gradient",
    "reductions.mean": "of what a mask selects; compared in tests/conformance/test_selections.py",
    "reductions.variance": "of what a mask selects, as above",
    "reductions.deviation": "of what a mask selects, as above",
    "powers.integers_power": "of integers, which take no gradient",
    "rejection_draws.following": "gives a draw; compared in tests/distributions/test_samples.py",
    "Bitcast": "reads bits, which take no gradient",
}


def label_of(declared):
    """An operator's name in the tables."""
    function = declared.function
    return f"{function.__module__.rpartition('.')[2]}.{function.__name__.lstrip('_')}"


def declared_operators():
    """Every operator of the catalogue by its label, those included that only layers use."""
    for room in (flambeau.ops, flambeau.rare):
        for module in pkgutil.iter_modules(room.__path__, f"{room.__name__}."):
            importlib.import_module(module.name)
    return {
        label_of(each): each
        for each in declarations._all_ops
        if each.function.__module__.startswith(("flambeau.ops.", "flambeau.rare."))
    }


#: Operators whose gradients may depend on shapes and on integers only, and why they keep values.
KEEP_MORE = {
    "where": "its node shows the condition, as PyTorch's does",
    "embedding": "its node shows the indices, as PyTorch's does",
    "embedding_bag": "its node shows the indices, as PyTorch's does",
    "max_unpool": "its node shows the indices, as PyTorch's does",
    "mul": "the gradient of a product with a number depends on the number",
    "ldexp": "the gradient depends on a factor that is no integer",
    "scatter_reduce": "the gradients of other reductions depend on the values",
    "segment_reduce": "the gradients of other reductions depend on the values",
    "lu_unpack": "gives two factors, and depends on the other one",
}

OPERATORS = declared_operators()
VIEWS = {name for name, each in vars(steps).items() if hasattr(each, "read")}


def leaves(row):
    return tuple(each.detach().clone().requires_grad_() for each in row.inputs)


def nodes_of(result):
    """The nodes on the tape of a result."""
    waiting = [each.grad_fn for each in ([result] if isinstance(result, Tensor) else result)]
    seen = set()
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        yield node
        waiting.extend(following for following, _ in node.next_functions)


def kernels_of(result):
    """The kernels on the tape of a result."""
    return [node.kernel for node in nodes_of(result) if hasattr(node, "kernel")]


def nodes_that_keep_too_much(result):
    """The operators on the tape of a result whose gradients depend on no value that they keep."""
    for node in nodes_of(result):
        kernel = getattr(node, "kernel", None)
        if kernel is None or kernel.linear or node.vjp is not None:
            continue
        used = packing.used_by_gradient(kernel, node.arrays, node.edges)
        kept = [u for u, each in zip(used, node.arrays, strict=False) if is_inexact(each)]
        if kept and not any(kept):
            yield kernel.name


def is_inexact(array):
    return getattr(array, "dtype", None) in INEXACT


def is_run(operator, result):
    """Whether an operator is on the tape of a result."""
    if operator in OPERATORS:
        applied = (getattr(each.function, "func", None) for each in kernels_of(result))
        return any(getattr(each, "__self__", None) is OPERATORS[operator] for each in applied)
    names = {each.name for each in kernels_of(result)}
    views = {type(getattr(each.function, "__self__", None)).__name__ for each in kernels_of(result)}
    return operator in names | views


def test_every_differentiable_operator_has_a_row():
    differentiable = {
        name for name, each in OPERATORS.items() if each.kernel_options["differentiable"]
    }
    named = {row.operator for row in ROWS}
    missing = sorted((differentiable | VIEWS) - named - set(WITHOUT_A_ROW))
    assert not missing


@pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])
def test_gradient_equals_finite_difference(row):
    inputs = leaves(row)
    result = row.compute(*inputs)
    assert is_run(row.operator, result), "the row does not run its operator"
    assert not {*nodes_that_keep_too_much(result)} - KEEP_MORE.keys(), "declare it linear"
    assert gradcheck(row.compute, inputs, fast_mode=True, check_undefined_grad=False)


TWICE = [row for row in ROWS if row.twice]


@pytest.mark.parametrize("row", TWICE, ids=[row.name for row in TWICE])
def test_gradient_of_the_gradient_equals_finite_difference(row):
    assert gradgradcheck(row.compute, leaves(row), fast_mode=True, check_undefined_grad=False)
