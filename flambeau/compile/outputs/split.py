"""A traced program, split in two: the forward, and the backward that takes the cotangents.

A trace that goes forwards and then backwards does not have the cotangents, which come from outside
when the gradients are computed. It uses placeholders. The operations that depend on a placeholder
are the backward program, and all others the forward program.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import jax
from jax.core import ShapedArray, Tracer
from jax.interpreters import partial_eval

from flambeau.core.support.jax_core import bind, jax_core

# JAX's names for the primitive that calls a compiled function.
_CALLS = ("jit", "pjit")


@functools.cache
def _placeholder() -> Any:
    primitive = jax_core().Primitive("cotangent")

    @primitive.def_abstract_eval
    def of(*, number: int, shape: tuple[int, ...], dtype: Any) -> ShapedArray:
        return ShapedArray(shape, dtype)

    return primitive


def placeholder(number: int, like: Any) -> Any:
    """The placeholder for cotangent ``number``, with the shape and dtype of ``like``."""
    return _placeholder().bind(number=number, shape=like.shape, dtype=like.dtype)


def without_constants(closed: Any) -> Any:
    """The jaxpr that takes its constants as its first operands, and keeps none of them alive."""
    jaxpr = closed.jaxpr
    # Newer versions of JAX keep the values in the jaxpr itself.
    detach = getattr(partial_eval, "convert_constvars_jaxpr", None)
    return jaxpr if detach is None else detach(jaxpr)


class _Later:
    """A value that only the backward program has."""

    __slots__ = ()


class _Saved(NamedTuple):
    """A value that the forward program has: one of its inputs, or of its residuals."""

    is_input: bool
    number: int


class _Step(NamedTuple):
    """One operation of the backward; its operands are `_Later`, forward values, or numbers."""

    equation: Any
    operands: list[Any]
    results: list[_Later]


class _Evaluation:
    """One run through a program.

    Args:
        cotangents: The values of the first placeholders; the others are `_Later`.
    """

    def __init__(self, cotangents: Sequence[Any] = ()) -> None:
        self.cotangents: dict[int, Any] = dict(enumerate(cotangents))
        self.steps: list[_Step] = []
        # Constants by identity, with the values that stand for them in steps.
        self._constants: dict[int, tuple[Any, _Later]] = {}

    def run(self, jaxpr: Any, values: Sequence[Any]) -> list[Any]:
        """The results of ``jaxpr`` for its constants and arguments."""
        literal = jax_core().Literal
        known = dict(zip((*jaxpr.constvars, *jaxpr.invars), values, strict=True))

        def read(atom: Any) -> Any:
            return atom.val if isinstance(atom, literal) else known[atom]

        for equation in jaxpr.eqns:
            results = self._evaluate(equation, [*map(read, equation.invars)])
            known.update(zip(equation.outvars, results, strict=True))
        return [*map(read, jaxpr.outvars)]

    def _evaluate(self, equation: Any, operands: list[Any]) -> Sequence[Any]:
        if equation.primitive is _placeholder():
            return [self.cotangents.setdefault(equation.params["number"], _Later())]
        if all(type(each) is not _Later for each in operands):
            results = bind(equation, operands)
            known = [*map(self.in_steps, operands)]
            if not equation.effects and not any(isinstance(each, Tracer) for each in known):
                # The backward computes a constant again instead of keeping it.
                self._add_step(equation, operands, laters := [_Later() for _ in results])
                pairs = zip(results, laters, strict=True)
                self._constants.update((id(pair[0]), pair) for pair in pairs)
            return results
        if equation.primitive.name in _CALLS:
            # Part of the called program may belong to the forward.
            called = equation.params["jaxpr"]
            with jax.named_scope(str(equation.params["name"])):
                return self.run(called.jaxpr, [*called.consts, *operands])
        results = [_Later() for _ in equation.outvars]
        self._add_step(equation, operands, results)
        return results

    def _add_step(self, equation: Any, operands: list[Any], results: list[_Later]) -> None:
        self.steps.append(_Step(equation, [*map(self.in_steps, operands)], results))

    def in_steps(self, value: Any) -> Any:
        """The value that stands for ``value`` in steps."""
        return self._constants.get(id(value), (value, value))[1]


def _needed(steps: list[_Step], wanted: Iterable[Any]) -> list[_Step]:
    """The steps that lead to the ``wanted`` values."""
    values = set(map(id, wanted))
    needed = []
    for step in reversed(steps):
        if not values.isdisjoint(map(id, step.results)):
            values.update(map(id, step.operands))
            needed.append(step)
    return needed[::-1]


class Split:
    """A traced program with placeholders, as a forward and a backward function.

    `forward` must be traced before `backward`: it finds the residuals.

    Args:
        jaxpr: The program; its first results need no cotangents.
        operands: Gives the constants and arguments of the jaxpr from the inputs.
        outputs: The number of results that need no cotangents; the others are gradients.
    """

    def __init__(
        self, jaxpr: Any, operands: Callable[[Sequence[Any]], list[Any]], outputs: int
    ) -> None:
        self.jaxpr = jaxpr
        self.operands = operands
        self.outputs = outputs
        self._steps: list[_Step] = []
        self._gradients: list[Any] = []
        self._cotangents: dict[int, Any] = {}

    def gradients(self, inputs: Sequence[Any], cotangents: Sequence[Any]) -> tuple[Any, ...]:
        """The gradients, recomputing the forward."""
        return tuple(self._run(_Evaluation(cotangents), inputs)[self.outputs :])

    def forward(self, *inputs: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """The results that need no cotangents, and the residuals that `backward` needs.

        Raises:
            ValueError: One of these results does need a cotangent.
        """
        evaluation = _Evaluation()
        results = self._run(evaluation, inputs)
        outputs, gradients = results[: self.outputs], results[self.outputs :]
        gradients = [*map(evaluation.in_steps, gradients)]
        if any(type(each) is _Later for each in outputs):
            raise ValueError("a result of the forward program depends on a cotangent")
        residuals: list[Any] = []
        places = {id(each): _Saved(True, i) for i, each in enumerate(inputs)}

        def saved(value: Any) -> Any:
            if not isinstance(value, Tracer):
                return value
            if id(value) not in places:
                places[id(value)] = _Saved(False, len(residuals))
                residuals.append(value)
            return places[id(value)]

        self._steps = [
            step._replace(operands=[*map(saved, step.operands)])
            for step in _needed(evaluation.steps, gradients)
        ]
        self._gradients = [*map(saved, gradients)]
        self._cotangents = evaluation.cotangents
        return tuple(outputs), tuple(residuals)

    def backward(
        self, inputs: Sequence[Any], residuals: Sequence[Any], cotangents: Sequence[Any]
    ) -> tuple[Any, ...]:
        """The gradients.

        Args:
            inputs: The inputs of `forward`.
            residuals: The residuals of `forward`.
            cotangents: The values of the placeholders.
        """
        values = {later: cotangents[number] for number, later in self._cotangents.items()}

        def value_of(operand: Any) -> Any:
            if type(operand) is _Saved:
                return (inputs if operand.is_input else residuals)[operand.number]
            return values[operand] if type(operand) is _Later else operand

        for equation, operands, results in self._steps:
            values.update(zip(results, bind(equation, [*map(value_of, operands)]), strict=True))
        return tuple(map(value_of, self._gradients))

    def _run(self, evaluation: _Evaluation, inputs: Sequence[Any]) -> list[Any]:
        return evaluation.run(self.jaxpr, self.operands(inputs))
