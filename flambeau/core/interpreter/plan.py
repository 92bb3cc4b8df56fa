"""A function of arrays as a list of steps, each of which NumPy computes by one rule.

A jaxpr is flattened once: calls of other functions are written out, what no result depends on is
left out, and each equation is bound to the rule that computes it for its shapes and parameters. A
function that is called many times is a plan of its own, and each call is one step.
"""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple, TypeAlias

import jax
import numpy as np
from jax.core import ShapedArray

from flambeau.core.interpreter.equation import Array, Computation, Equation, Unknown
from flambeau.core.interpreter.sizes import AS_NUMBER, Number
from flambeau.core.interpreter.table import RULES
from flambeau.core.interpreter.work import compiling_of, work_of
from flambeau.core.support.jax_core import jax_core
from flambeau.core.types import AnyArray, ClosedJaxpr, Function, Jaxpr, JaxprEqn, Kwargs

#: Parameters that hold the function that an equation calls.
_CALLS = {
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "closed_call": "call_jaxpr",
    "core_call": "call_jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "checkpoint": "jaxpr",
    "remat2": "jaxpr",
}

#: Primitives by their formulas in functions of JAX; their files put them here.
FORMULAS: dict[str, Function] = {}

# The dtypes that NumPy computes as XLA does. XLA computes several operations of half precision in
# single precision and rounds once; complex numbers differ where parts are infinite.
_DTYPES = {*map(np.dtype, ("?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8"))}

# Primitives whose rules give a sequence of results.
_SEVERAL = {
    "call",
    "cond",
    "optimization_barrier",
    "reduce",
    "scan",
    "sort",
    "split",
    "top_k",
    "unstack",
}

# Parameters that say once more what the primitive's name does.
_LEFT_OUT = {"computation", "update_jaxpr", "update_consts"}

# Integers that change nothing: JAX counts up to a `Size` in steps of one, from zero.
_NEUTRAL = {"add": 0, "mul": 1}

# XLA computes a loop or a recursion of this many steps in less time.
_MOST_STEPS = 20_000

# A function that is called this often is not written out at each call.
_MANY_CALLS = 8


class Slots(NamedTuple):
    """Where an equation's arrays are.

    Attributes:
        inputs: The slots of the arrays that it takes.
        outputs: The slots of the results; an integer where the function gives a single one.
        last: The slots that nothing reads afterwards.
    """

    inputs: tuple[int, ...]
    outputs: int | tuple[int, ...]
    last: tuple[int, ...]


class _Step(NamedTuple):
    """One equation.

    Attributes:
        function: Takes the arrays and gives the result, or a sequence of results.
        slots: Where these are.
    """

    function: Computation
    slots: Slots


#: The contents of slots before a call: constants, `Number`s in a template, or ``None``.
Constants: TypeAlias = list[Any]
#: The arguments of a `Plan`.
Parts: TypeAlias = tuple[
    "list[Placed]", Constants, list[Array], list[int], list[int], list[tuple[Array, bool]]
]


class Plan:
    """The steps of a function; `plan_of` makes it of a jaxpr.

    It can be pickled: the rules are bound again where it is loaded.

    Args:
        equations: In the order in which they are computed.
        values: What the slots hold at first: constants, or ``None``.
        inputs: The types of the arrays that it takes,
        taken: and their slots.
        given: The slots of the results,
        avals: and their types, with whether they are weak.
        order: `order_of` the equations, if it is known.

    Raises:
        Unknown: Some rule does not know its equation.
    """

    __slots__ = ("_count", "_steps", "avals", "held", "inputs", "parts", "work")

    def __init__(
        self, equations: list[Placed], values: Constants, inputs: list[Array],
        taken: list[int], given: list[int], avals: list[tuple[Array, bool]],
        order: list[Slots] | None = None,
    ) -> None:  # fmt: skip
        #: The arguments.
        self.parts: Parts = equations, values, inputs, taken, given, avals
        self.inputs: list[Array] = inputs
        #: JAX's types of the results.
        self.avals: list[ShapedArray] = [
            ShapedArray(each.shape, each.dtype, weak_type=weak) for each, weak in avals
        ]
        functions = [RULES[each.equation.name](each.equation) for each in equations]
        #: The microseconds that a call takes, as estimated from shapes.
        self.work: float = sum(
            getattr(function, "work", None) or work_of(each.equation)
            for function, each in zip(functions, equations, strict=True)
        )
        # With those of the functions that it calls.
        self._count: int = sum(getattr(function, "steps", 1) for function in functions)
        constant = [slot for slot, value in enumerate(values) if value is not None]
        #: The identities of the arrays that belong to the plan, which may be among the results.
        self.held: frozenset[int] = frozenset(id(values[slot]) for slot in constant)
        order = order or order_of(equations, {*given, *taken, *constant})
        self._steps: list[_Step] = [*map(_Step, functions, order)]

    def __reduce__(self) -> tuple[type[Plan], Parts]:
        return Plan, self.parts

    def __len__(self) -> int:
        return self._count

    def compiling(self, native: bool) -> float:
        """The microseconds that XLA takes to compile it, as estimated from its steps.

        Args:
            native: Whether convolutions are calls of native kernels.
        """
        return sum(
            compiling_of(each.equation, native) if inner is None else inner(native)
            for each, inner in zip(
                self.parts[0],
                [getattr(step.function, "compiling", None) for step in self._steps],
                strict=True,
            )
        )

    def __call__(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The results for NumPy arrays, which may be views of them."""
        _, empty, _, taken, given, _ = self.parts
        values = empty.copy()
        for slot, array in zip(taken, arrays, strict=True):
            values[slot] = array
        for function, (inputs, outputs, last) in self._steps:
            found = function(*[values[slot] for slot in inputs])
            if type(outputs) is int:
                values[outputs] = found
            else:
                for slot, each in zip(outputs, found, strict=True):  # type: ignore[arg-type]
                    values[slot] = each
            for slot in last:
                values[slot] = None
        return [values[slot] for slot in given]


def plan_of(jaxpr: ClosedJaxpr) -> Plan:
    """The plan of a closed jaxpr.

    Raises:
        Unknown: Some primitive or dtype has no rule.
    """
    return Plan(*parts_of(jaxpr, plan_of))


def parts_of(jaxpr: ClosedJaxpr, planned: Callable[[ClosedJaxpr], object]) -> Parts:
    """The arguments of `Plan` for a closed jaxpr.

    Args:
        jaxpr: May have sizes that stand for any size.
        planned: What stands for the functions in the parameters of equations.

    Raises:
        Unknown: Some primitive or dtype has no rule.
    """
    flat = _Flat()
    inputs = [_array_of(each.aval) for each in jaxpr.jaxpr.invars]
    taken = [*map(flat.slot, inputs)]
    given = flat.write_out(jaxpr.jaxpr, jaxpr.consts, taken)
    equations = flat.used(given, planned)
    for each in equations:
        _check(*each.equation.inputs, *each.equation.outputs)
    results = [flat.types[slot] for slot in given]
    _check(*inputs, *results)
    read = {*given, *itertools.chain.from_iterable(each.inputs for each in equations)}
    values = [value if slot in read else None for slot, value in enumerate(flat.values)]
    weak = [bool(getattr(each.aval, "weak_type", False)) for each in jaxpr.jaxpr.outvars]
    return equations, values, inputs, taken, given, [*zip(results, weak, strict=True)]


def _planned(equation: Equation, planned: Callable[[ClosedJaxpr], object]) -> Equation:
    """An equation whose functions are plans, so that all of it can be pickled."""
    params = {
        key: planned(value)
        if hasattr(value, "eqns")
        else tuple(map(planned, value))
        if key == "branches"
        else value
        for key, value in equation.params.items()
        if key not in _LEFT_OUT
    }
    return equation._replace(params=params)


class Placed(NamedTuple):
    """An equation and the slots of its arrays and results."""

    equation: Equation
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


class _Flat:
    """The equations of a function and of those that it calls, in their order."""

    def __init__(self) -> None:
        self.values: Constants = []
        self.types: list[Array] = []
        self.equations: list[Placed] = []

    def slot(self, kind: Array, value: np.ndarray | Number | None = None) -> int:
        self.types.append(kind)
        self.values.append(value)
        return len(self.values) - 1

    def write_out(
        self, jaxpr: Jaxpr, consts: Sequence[AnyArray], inputs: Sequence[int]
    ) -> list[int]:
        """Add the equations of ``jaxpr`` for inputs in these slots; the slots of its results."""
        if jaxpr.effects:
            raise Unknown("effects")
        literal = jax_core().Literal
        slots: dict[Hashable, int] = dict(zip(jaxpr.invars, inputs, strict=True))
        for variable, const in zip(jaxpr.constvars, consts, strict=True):
            slots[variable] = self.constant_slot(variable.aval, const)

        def slot_of(atom: Any) -> int:
            if type(atom) is literal:
                return self.constant_slot(atom.aval, atom.val)
            return slots[atom]

        calls = Counter(id(_called(each)) for each in jaxpr.eqns)
        for each in jaxpr.eqns:
            given, called = [*map(slot_of, each.invars)], _called(each)
            if called is None:
                found = self._written(each, given)
            elif calls[id(called)] < _MANY_CALLS or not hasattr(called, "consts"):
                found = self.write_out(*_opened(called), given)
            else:
                found = self._placed("call", {"jaxpr": called}, given, each)
            slots.update(zip(each.outvars, found, strict=True))
        return [*map(slot_of, jaxpr.outvars)]

    def constant_slot(self, aval: object, value: AnyArray | complex) -> int:
        kind = _array_of(aval)
        if kind.dtype not in _DTYPES:
            return self.slot(kind)
        return self.slot(kind, np.asarray(value, kind.dtype).reshape(kind.shape))

    def _written(self, each: JaxprEqn, given: list[int]) -> list[int]:
        name, params = each.primitive.name, each.params
        if name in FORMULAS:
            avals = [variable.aval for variable in each.invars]
            with jax.disable_jit():
                traced = jax.make_jaxpr(functools.partial(FORMULAS[name], **params))(*avals)
            return self.write_out(traced.jaxpr, traced.consts, given)
        if name == AS_NUMBER:
            kind = _array_of(each.outvars[0].aval)
            return [self.slot(kind, Number(params["size"], (kind.dtype,)))]
        if name == "convert_element_type" and type(self.values[given[0]]) is Number:
            kind = _array_of(each.outvars[0].aval)
            return [self.slot(kind, self.values[given[0]].converted(kind.dtype))]
        if name not in RULES:
            raise Unknown(name)
        result = _array_of(each.outvars[0].aval)
        for slot, other in zip(given, given[::-1], strict=True) if name in _NEUTRAL else ():
            if self._is_neutral(name, self.values[slot]) and self.types[other] == result:
                return [other]
        return self._placed(name, params, given, each)

    def _placed(self, name: str, params: Kwargs, given: list[int], each: JaxprEqn) -> list[int]:
        """Add an equation; the slots of its results."""
        if len(self.equations) >= _MOST_STEPS:
            raise Unknown("many steps")
        results = [_array_of(variable.aval) for variable in each.outvars]
        outputs = [*map(self.slot, results)]
        equation = Equation(name, params, [self.types[slot] for slot in given], results)
        self.equations.append(Placed(equation, tuple(given), tuple(outputs)))
        return outputs

    def _is_neutral(self, name: str, value: object) -> bool:
        return (
            isinstance(value, np.ndarray)
            and not value.ndim
            and (value.dtype.kind in "iu" and value == _NEUTRAL[name])
        )

    def used(self, outputs: list[int], planned: Callable[[ClosedJaxpr], object]) -> list[Placed]:
        """The equations that some result depends on; see `parts_of`."""
        wanted, found = {*outputs}, []
        # One for all calls of a function.
        plans: dict[int, object] = {}

        def planned_once(jaxpr: ClosedJaxpr) -> object:
            if id(jaxpr) not in plans:
                plans[id(jaxpr)] = planned(jaxpr)
            return plans[id(jaxpr)]

        for each in reversed(self.equations):
            if not wanted.isdisjoint(each.outputs):
                wanted.update(each.inputs)
                found.append(each._replace(equation=_planned(each.equation, planned_once)))
        return found[::-1]


def _array_of(aval: object) -> Array:
    return Array(tuple(getattr(aval, "shape", ())), getattr(aval, "dtype", None))


def _check(*arrays: Array) -> None:
    for each in arrays:
        if each.dtype not in _DTYPES:
            raise Unknown(f"arrays of {each.dtype}")


def _called(equation: JaxprEqn) -> ClosedJaxpr | Jaxpr | None:
    """The function that an equation calls, if it calls one."""
    place = _CALLS.get(equation.primitive.name)
    if place is None:
        return None
    if equation.params.get("compiler_options_kvs"):
        raise Unknown("options")
    return equation.params.get(place)


def _opened(jaxpr: Any) -> tuple[Jaxpr, Sequence[AnyArray]]:
    """A jaxpr and its constants, whether it is closed or not."""
    return (jaxpr.jaxpr, jaxpr.consts) if hasattr(jaxpr, "consts") else (jaxpr, ())


def order_of(equations: list[Placed], kept: set[int]) -> list[Slots]:
    """The slots of equations, which give up those that nothing reads later, but for ``kept``."""
    found, read = [], kept
    for equation, inputs, outputs in reversed(equations):
        last = tuple({*inputs, *outputs} - read)
        read |= {*inputs}
        single = equation.name not in _SEVERAL
        found.append(Slots(inputs, outputs[0] if single else outputs, last))
    return found[::-1]
