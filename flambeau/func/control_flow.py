"""Branches and loops that depend on tensors' values: `cond`, `while_loop`, `scan` and `map`.

In eager mode they are Python's ``if`` and loops. In a compiled function the values are unknown: the
branches and bodies are traced, and the program branches and loops when it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax.core import Tracer

from flambeau.core.support.modes import modes
from flambeau.core.tape import checks
from flambeau.core.tape.transform import Capture, lifted
from flambeau.core.values.inside import Conditions, require
from flambeau.core.values.tensor import Tensor
from flambeau.core.values.trace import TracedValueError
from flambeau.func import recorded
from flambeau.func.tree import Structure, as_tensor, flatten, unflatten
from flambeau.ops.factories.from_data import tensor
from flambeau.ops.shapes.shape import stack
from flambeau.random.drawing import Descent

__all__ = ["cond", "map", "scan", "while_loop"]

_Function = Callable[..., Any]


def cond(pred: Any, true_fn: _Function, false_fn: _Function, operands: Any = ()) -> Any:
    """The result of one of two functions, chosen by a condition: ``if`` for compiled functions.

    A compiled program runs only the chosen function. In it, neither function may draw random
    numbers or write in place to a tensor from outside. Gradients flow through the chosen function.

    Args:
        pred: A bool, or a tensor with one element.
        true_fn: Takes the operands. Its result has the structure, shapes and dtypes of the result
            of ``false_fn``.
        false_fn: As ``true_fn``.
        operands: A tuple of tensors, or of nested tuples, lists and dicts of them.

    Raises:
        RuntimeError: An argument has another type; or, in a compiled function, the results of the
            two functions differ in structure, shape or dtype.

    >>> import flambeau
    >>> x = flambeau.tensor([1.0, 2.0])
    >>> flambeau.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,))
    tensor([2., 3.])
    """
    if not callable(true_fn) or not callable(false_fn):
        raise RuntimeError("cond(): Expect both branches to be callable.")
    if isinstance(pred, int | float):
        return (true_fn if pred else false_fn)(*operands)
    if not isinstance(pred, Tensor) or pred.numel() != 1:
        raise RuntimeError(
            f"cond(): Expected pred to be bool or single-element tensor, but got {pred}"
        )
    leaves, structure = flatten(tuple(operands) if isinstance(operands, list) else operands)
    if not isinstance(operands, tuple | list) or not all(isinstance(x, Tensor) for x in leaves):
        raise RuntimeError(
            "cond(): Expect operands to be a tuple of possibly nested dict/list/tuple that only "
            f"consists of tensor leaves, but got {operands}"
        )
    if _is_known(pred):
        return (true_fn if pred else false_fn)(*operands)
    branches = _Bodies("cond", (true_fn, false_fn), structure)

    def compute(arrays: Sequence[Any], capture: Capture) -> tuple[Any, ...]:
        first, second = branches.traced(capture)
        choice = arrays[0].reshape(())
        results = jax.lax.cond(choice, first, second, *arrays[1:])
        branches.give_captured(capture)
        return results

    return branches.result(branches.checked(recorded.run(compute, [pred, *leaves])))


def while_loop(cond_fn: _Function, body_fn: _Function, carried_inputs: Any) -> Any:
    """Apply a function as long as a condition holds: ``while`` for compiled functions.

    Args:
        cond_fn: A function of the carried values that returns a bool, or a tensor with one element.
        body_fn: A function of the carried values that returns a tuple of the next ones, in the same
            structure, with the same shapes and dtypes.
        carried_inputs: The tuple of initial values: tensors, ints, or nested tuples, lists and
            dicts of them.

    Returns:
        The last values. In a compiled function ints have become tensors.

    Raises:
        RuntimeError: An argument has another type, or ``body_fn`` gives values of other shapes or
            dtypes. In a compiled function a tensor requires grad: the length of the loop, which
            gradients would need, is not known there.

    >>> import flambeau
    >>> flambeau.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 2), (0, flambeau.ones(2)))
    (3, tensor([8., 8.]))
    """
    if not callable(cond_fn) or not callable(body_fn):
        raise RuntimeError("while_loop(): Expect cond_fn and body_fn to be callable.")
    leaves = flatten(carried_inputs)[0]
    if not isinstance(carried_inputs, tuple | list) or not all(
        isinstance(each, Tensor | int) for each in leaves
    ):
        raise RuntimeError(
            "while_loop(): Expect carried_inputs to be a tuple of possibly nested dict/list/tuple "
            f"that only consists of tensor or int leaves, but got {carried_inputs}"
        )
    carried = tuple(carried_inputs)
    while True:
        goes_on = cond_fn(*carried)
        if isinstance(goes_on, Tensor) and not _is_known(goes_on):
            return _traced_loop(cond_fn, body_fn, carried)
        if not goes_on:
            return carried
        carried = _same_kind(body_fn(*carried), carried)


def _traced_loop(cond_fn: _Function, body_fn: _Function, carried: tuple[Any, ...]) -> Any:
    leaves, structure = flatten(carried)
    inputs = [each if isinstance(each, Tensor) else tensor(each) for each in leaves]
    if modes.grad_enabled and any(each.requires_grad for each in inputs):
        raise _no_gradient()

    def checked(*values: Any) -> Any:
        return _same_kind(body_fn(*values), values)

    bodies = _Bodies("while_loop", (cond_fn, checked), structure, are_alike=False)

    def compute(arrays: Sequence[Any], capture: Capture) -> tuple[Any, ...]:
        test, body = bodies.traced(capture)
        count = len(arrays)

        def step(state: tuple[Any, ...]) -> tuple[Any, ...]:
            results = body(*state[:count])
            pairs = zip(results[count:], state[count:], strict=True)
            return (*results[:count], *(holds & held for holds, held in pairs))

        results = jax.lax.while_loop(
            lambda state: test(*state[:count])[0].reshape(()),
            step,
            (*arrays, *bodies.hold(Conditions())),
        )
        if bodies.has_captured():
            raise _no_gradient()
        return results

    return bodies.result(bodies.checked(recorded.run(compute, inputs)))


def scan(
    combine_fn: _Function, init: Any, xs: Any, *, dim: int = 0, reverse: bool = False
) -> tuple[Any, Any]:
    """Carry a value through the slices of a tensor, and collect the result of each step.

    Args:
        combine_fn: A function of the carried value and a slice that returns the next carried value,
            of the same structure, shapes and dtypes, and the output to collect.
        init: The initial carried value: a tensor, or a nested tuple, list or dict of tensors.
        xs: A tensor, or a structure of tensors, of one length along ``dim``.
        dim: The dimension that slices are taken from.
        reverse: Start with the last slice.

    Returns:
        The last carried value, and the outputs, stacked along dimension ``dim`` in the order of the
        slices.

    Raises:
        RuntimeError: A leaf is not a tensor, the lengths differ or are 0, or the carried value
            changes its structure, shape or dtype.
    """
    sliced = _slices("scan", xs, dim)
    carried = flatten(init)[0]
    if not all(isinstance(each, Tensor) for each in carried):
        raise RuntimeError(f"scan(): init must only contain tensors, got {init}")

    def step(carry: Any, part: Any) -> Any:
        next_carry, given = combine_fn(carry, part)
        return _same_kind(next_carry, carry, "combine_fn"), given

    if not _is_compiling([*carried, *sliced.leaves]):
        collected: list[Any] = []
        order = range(sliced.length)
        for place in reversed(order) if reverse else order:
            init, given = step(init, sliced.part([each[place] for each in sliced.leaves]))
            collected.append(given)
        return init, _stacked(collected[::-1] if reverse else collected, dim)
    count = len(carried)
    _, structure = flatten((init, sliced.part(sliced.leaves)))
    body = _Bodies("scan", (step,), structure)

    def compute(arrays: Sequence[Any], capture: Capture) -> tuple[Any, ...]:
        (run,) = body.traced(capture)

        def along(carry: tuple[Any, ...], parts: tuple[Any, ...]) -> tuple[Any, Any]:
            results = run(*carry, *parts)
            return results[:count], results[count:]

        first, rest = tuple(arrays[:count]), tuple(arrays[count:])
        last, outputs = jax.lax.scan(along, first, rest, reverse=reverse)
        body.give_captured(capture)
        return (*last, *outputs)

    results = body.checked(recorded.run(compute, [*carried, *sliced.leaves]))
    return body.result([*results[:count], *(each.movedim(0, dim) for each in results[count:])])


def map(f: _Function, xs: Any, *args: Any) -> Any:
    """The results of a function for the slices of a tensor along its first dimension, stacked.

    Args:
        f: A function of a slice and ``args`` that returns a tensor, or a nested tuple, list or dict
            of tensors.
        xs: A tensor, or a structure of tensors of one length.
        args: Other arguments of ``f``, the same for each slice.

    Raises:
        RuntimeError: A leaf of ``xs`` is not a tensor, or the lengths differ or are 0.
    """
    return scan(lambda carry, part: (carry, f(part, *args)), (), xs)[1]


class _Bodies:
    """Functions of tensors as functions of arrays, which JAX traces.

    Args:
        name: The name of the function that the user called.
        functions: The user's functions.
        structure: The structure of their arguments.
        are_alike: Whether their results must have the same structure, shapes and dtypes.

    Attributes:
        structure: The structure of the last function's result.
        is_checked: Whether they return, last, whether the conditions inside hold; see
            `Block.require`.
    """

    def __init__(
        self, name: str, functions: Sequence[_Function], structure: Structure,
        are_alike: bool = True,
    ) -> None:  # fmt: skip
        self.name = name
        self.functions = functions
        self.arguments = structure
        self.are_alike = are_alike
        self.structure: Any = None
        self.is_checked: bool = checks.indices
        self._captured: list[list[Tensor]] = [[] for _ in functions]
        self._kind: Any = None

    def traced(self, capture: Capture) -> list[_Function]:
        """The functions of arrays; in a later run with values for the captured tensors."""
        given, self._kind = capture.given, None
        parts: list[Any] = [None] * len(self.functions)
        if given is not None:
            start = 0
            for number, tensors in enumerate(self._captured):
                parts[number] = given[start : start + len(tensors)]
                start += len(tensors)
        return [self._traced(number, part, capture) for number, part in enumerate(parts)]

    def _traced(self, number: int, given: Any, outer: Capture) -> _Function:
        descent = Descent()

        def run(*arrays: Any) -> tuple[Any, ...]:
            inside = _Body(self.name, given)
            inside.differentiated = outer.differentiated
            with inside, descent:
                leaves = [Tensor._wrap(each) for each in arrays]
                found = self.functions[number](*unflatten(self.arguments, leaves))
                outputs, self.structure = flatten(found)
                tensors = lifted([self._as_tensor(each) for each in outputs])
                results = tuple([each._read() for each in tensors])
                holds = self.hold(inside.conditions)
            if given is None:
                self._captured[number] = inside.tensors
            self._check(results)
            return (*results, *holds)

        return run

    def _as_tensor(self, leaf: Any) -> Tensor:
        leaf = tensor(leaf) if isinstance(leaf, bool | int | float) else as_tensor(leaf)
        if not isinstance(leaf, Tensor):
            raise RuntimeError(
                f"{self.name}() needs functions that return tensors only, got {type(leaf).__name__}"
            )
        return leaf

    def _check(self, results: tuple[Any, ...]) -> None:
        kind = (self.structure, [f"{each.dtype}{list(each.shape)}" for each in results])
        if self.are_alike and self._kind is not None and kind != self._kind:
            raise RuntimeError(
                f"{self.name}(): Expected true_fn_output and false_fn_output to have same "
                f"metadata but found {self._kind[1]} as {self._kind[0]} and {kind[1]} as {kind[0]}"
            )
        self._kind = kind

    def has_captured(self) -> bool:
        """Whether the functions capture tensors from outside that require grad."""
        return any(self._captured)

    def give_captured(self, capture: Capture) -> None:
        """Register in ``capture`` the tensors that the functions captured, in order."""
        if capture.given is None:
            for tensors in self._captured:
                capture.tensors.extend(tensors)

    def hold(self, conditions: Conditions) -> tuple[Any, ...]:
        """Whether these conditions hold, as the results to append."""
        return (conditions.hold(),) if self.is_checked else ()

    def checked(self, results: list[Tensor]) -> list[Tensor]:
        """The results without the appended one, which the enclosing program checks."""
        if not self.is_checked:
            return results
        *results, holds = results
        require(lambda: holds._read().all())
        return results

    def result(self, leaves: list[Tensor]) -> Any:
        """The results in the structure of the function's result."""
        return unflatten(self.structure, leaves)


class _Body(Capture):
    """The inside of a branch or of a loop body in a program.

    Args:
        name: The name of the function that the user called.
        given: See `Capture`.
    """

    def __init__(self, name: str, given: Sequence[Any] | None) -> None:
        super().__init__(given)
        self.name = name
        self.conditions = Conditions()

    def require(self, find: Callable[[], Any]) -> None:
        """See `Block.require`."""
        self.conditions.add(find)

    def owns(self, cell: Any) -> bool:
        """See `Inside.owns`.

        Raises:
            TracedValueError: ``cell`` is from outside.
        """
        if super().owns(cell):
            return True
        raise TracedValueError(
            f"a function of {self.name}() writes in place to a tensor from outside it, which the "
            "program of a compiled function cannot do; return the new value instead"
        )

    def draw(self, make: Callable[[], Any], until: Capture | None) -> Any:
        """See `Capture.draw`.

        Raises:
            TracedValueError: Always.
        """
        raise TracedValueError(
            f"a function of {self.name}() draws random numbers, which would be the same at every "
            "call of a compiled function; draw them before it, and pass them as arguments"
        )


class _Slices:
    """The tensors of a structure, with the sliced dimension first."""

    def __init__(self, leaves: list[Any], structure: Structure) -> None:
        self.leaves = leaves
        self.structure = structure
        self.length = len(leaves[0])

    def part(self, leaves: list[Any]) -> Any:
        """A nested value with the structure of the whole."""
        return unflatten(self.structure, leaves)


def _slices(name: str, xs: Any, dim: int) -> _Slices:
    leaves, structure = flatten(xs)
    if not leaves or not all(isinstance(each, Tensor) and each.ndim for each in leaves):
        raise RuntimeError(f"{name}(): xs can only consist of tensors with dimensions, got {xs}")
    lengths = [each.shape[dim] for each in leaves]
    if len({*lengths}) > 1 or not lengths[0]:
        raise RuntimeError(
            f"{name}(): the tensors of xs must have one length along dimension {dim}, and not 0; "
            f"got {lengths}"
        )
    return _Slices([each.movedim(dim, 0) for each in leaves], structure)


def _stacked(values: list[Any], dim: int) -> Any:
    columns = [flatten(each)[0] for each in values]
    structure = flatten(values[0])[1]
    return unflatten(structure, [stack(each, dim) for each in zip(*columns, strict=True)])


def _same_kind(new: Any, old: Any, function: str = "body_fn") -> Any:
    """``new``, whose structure, shapes and dtypes must equal those of ``old``."""
    new = tuple(new) if isinstance(old, tuple) and isinstance(new, list) else new
    (leaves, structure), (others, expected) = flatten(new), flatten(old)
    kinds, kinds_before = [*_kinds(leaves)], [*_kinds(others)]
    if structure != expected or kinds != kinds_before:
        raise RuntimeError(
            f"Expected carried_inputs and {function}_output to have same metadata but found "
            f"{kinds_before} as {expected} and {kinds} as {structure}"
        )
    return new


def _kinds(leaves: list[Any]) -> Any:
    for each in leaves:
        is_tensor = isinstance(each, Tensor)
        yield f"{each.dtype}{list(each.shape)}" if is_tensor else type(each).__name__


def _is_known(value: Tensor) -> bool:
    return not _is_compiling([value])


def _is_compiling(tensors: Sequence[Tensor]) -> bool:
    """Whether values are unknown here."""
    return modes.trace is not None or any(isinstance(each._read(), Tracer) for each in tensors)


def _no_gradient() -> TracedValueError:
    return TracedValueError(
        "while_loop() has no gradients in a compiled function, since the length of the loop is not "
        "known; call it under no_grad(), detach what it takes, or use a loop of a fixed length"
    )
