"""Barriers that end long chains of elementwise operations in programs for CPUs.

On CPUs XLA recomputes a value in each operation that uses it, together with all elementwise
operations that lead to it. In a loop over an `LSTMCell` each step would recompute the memory of all
steps before it: the times to compile and to run the loop would grow with the square of its length.
A barrier at the end of a long chain makes XLA compute the value once. The steps then have equal
kernels, which XLA compiles once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Any

import jax
from jax import lax
from jax.core import eval_jaxpr

from flambeau.core.devices.compiler import cpu_forms, options_with_barriers
from flambeau.core.support.jax_core import bind, called_by, jax_core
from flambeau.core.types import AnyArray, Jaxpr, JaxprEqn, Leaf

__all__: list[str] = []

# Cut chains of more operations than this.
_LONG = 64

# Primitives that XLA recomputes in each operation that uses their result.
_ELEMENTWISE = """
abs acos acosh add add_any and asin asinh atan atan2 atanh bessel_i0e bessel_i1e
bitcast_convert_type broadcast_in_dim cbrt ceil clamp clz concatenate conj convert_element_type copy
cos cosh digamma div dynamic_slice eq erf erf_inv erfc exp exp2 expand_dims expm1 floor gather ge gt
igamma igammac imag integer_pow iota is_finite le lgamma log log1p logistic lt max min mul ne neg
nextafter not or pad population_count pow real reduce_precision rem reshape rev round rsqrt select_n
shift_left shift_right_arithmetic shift_right_logical sign sin sinh slice split sqrt square squeeze
stack stop_gradient sub tan tanh transpose unstack xor
"""
_NAMES = frozenset(_ELEMENTWISE.split())
# Primitives that call a jaxpr once.
_CALLS = frozenset({"closed_call", "custom_jvp_call", "custom_vjp_call", "jit", "pjit"})

# The operations that a value is computed by, as numbers; ``None`` if there are more than `_LONG`.
_Chain = frozenset[int] | None


def evaluated(jaxpr: Jaxpr, constants: Sequence[AnyArray], *arguments: Leaf) -> list[jax.Array]:
    """The results of a jaxpr for its constants and arguments, as `jax.core.eval_jaxpr` gives them.

    In a program for CPUs the values at the ends of long chains are computed once.
    """
    ends = _ends(jaxpr) if cpu_forms() else ()
    if not ends:
        return eval_jaxpr(jaxpr, constants, *arguments)
    literal = jax_core().Literal
    known = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*constants, *arguments), strict=True))

    def value(atom: Any) -> Any:
        return atom.val if isinstance(atom, literal) else known[atom]

    for equation in jaxpr.eqns:
        results = bind(equation, [*map(value, equation.invars)])
        for variable, result in zip(equation.outvars, results, strict=True):
            known[variable] = lax.optimization_barrier(result) if variable in ends else result
    return [*map(value, jaxpr.outvars)]


def compiled_with_barriers(lowered: jax.stages.Lowered, jaxpr: Jaxpr) -> jax.stages.Compiled:
    """Compile a program so that XLA keeps its barriers until it has fused operations.

    XLA cannot compile barriers in small loops for CPUs. It removes the barriers of such a program.
    """
    if _barriers(jaxpr, False) == {False}:
        try:
            return lowered.compile(options_with_barriers())
        except jax.errors.JaxRuntimeError as error:
            # A primitive lowers to a loop with a barrier, which the jaxpr does not show.
            if "opt-barrier" not in str(error):
                raise
    return lowered.compile()


def _barriers(jaxpr: Jaxpr, is_loop: bool) -> set[bool]:
    """Whether barriers are in loops or branches, outside, or both."""
    found: set[bool] = set()
    for equation in jaxpr.eqns:
        if equation.primitive.name == "optimization_barrier":
            found.add(is_loop)
        for called in called_by(equation):
            found |= _barriers(called, is_loop or equation.primitive.name not in _CALLS)
    return found


def _ends(jaxpr: Jaxpr) -> set[Hashable]:
    """The variables at the ends of long chains that are used more than once."""
    found = _Chains()
    found.run(jaxpr, {}, _uses(jaxpr))
    return found.ends


def _uses(jaxpr: Jaxpr, is_called: bool = False) -> Counter[int]:
    """How many operations use each variable, by identity; each part of a `split` is one.

    Values in a called jaxpr are not cut. There, an elementwise operation counts as often as its
    results are used.
    """
    uses = Counter({*map(id, jaxpr.outvars)})
    for equation in reversed(jaxpr.eqns):
        name = equation.primitive.name
        if name in _CALLS:
            called = next(called_by(equation))
            inside = _uses(called, is_called=True)
            for variable, inner in zip(equation.invars, called.invars, strict=True):
                uses[id(variable)] += inside[id(inner)]
            continue
        count = len(equation.outvars) if name == "split" else 1
        if is_called and name in _NAMES:
            count = sum(uses[id(each)] for each in equation.outvars)
        for each in {*map(id, equation.invars)}:
            uses[each] += count
    return uses


class _Chains:
    """The chains of the values of a jaxpr."""

    def __init__(self) -> None:
        self.ends: set[Hashable] = set()
        self._count = 0

    def run(
        self, jaxpr: Jaxpr, known: dict[Hashable, _Chain], uses: Counter[int] | None = None
    ) -> list[_Chain]:
        """The chains of the results.

        Args:
            jaxpr: A jaxpr.
            known: The chains of its arguments; those that are missing are empty.
            uses: How many operations use each variable, if chains may be cut.
        """
        literal = jax_core().Literal

        def chain(atom: Any) -> _Chain:
            return frozenset() if isinstance(atom, literal) else known.get(atom, frozenset())

        for equation in jaxpr.eqns:
            chains = self._results(equation, [*map(chain, equation.invars)])
            for variable, each in zip(equation.outvars, chains, strict=True):
                if each is None and uses is not None and uses[id(variable)] > 1:
                    self.ends.add(variable)
                    each = frozenset()
                if each is None or each:
                    known[variable] = each
        return [*map(chain, jaxpr.outvars)]

    def _results(self, equation: JaxprEqn, chains: list[_Chain]) -> list[_Chain]:
        name = equation.primitive.name
        if name in _CALLS:
            called = next(called_by(equation))
            return self.run(called, dict(zip(called.invars, chains, strict=True)))
        if name not in _NAMES:
            return [frozenset()] * len(equation.outvars)
        self._count += 1
        found: _Chain = None
        if None not in chains:
            found = frozenset((self._count,)).union(*chains)  # type: ignore[arg-type]
            found = None if len(found) > _LONG else found
        return [found] * len(equation.outvars)
