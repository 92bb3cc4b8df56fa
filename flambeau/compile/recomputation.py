"""Activation checkpointing in a traced program: backward recomputes instead of keeping values.

While a `Region` is open, the values that the tape's nodes save belong to it. When backward needs a
saved value, the trace gets a note. After the trace, `expanded` replaces the notes by copies of the
operations that compute these values. So the user's function runs once, and draws and writes once.

XLA would merge the copies with the originals, and keep the values after all. JAX's checkpointing
uses optimization barriers against that, which the XLA of JAX 0.10 drops early in programs for the
CPU. Here the copies start from inputs that are selected by a condition which is always true, but
which XLA cannot evaluate before it has the cotangents. That works on every backend.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.core import ShapedArray
from jax.interpreters import ad, batching, mlir

from flambeau.core.kernels.lazy_cotangent import value_of
from flambeau.core.support.jax_core import jax_core
from flambeau.core.support.modes import modes
from flambeau.core.tape import engine
from flambeau.core.tape.node import sequence_now
from flambeau.core.tape.packing import Hooks
from flambeau.core.values.inside import capture
from flambeau.core.values.tensor import Tensor

_TOKEN = ShapedArray((), jnp.dtype("bool"))


def _primitive(name: str, position: int | None) -> Any:
    """A primitive that marks a place in a trace and computes nothing.

    Args:
        name: Its name.
        position: The position of the operand that it returns; ``None`` to return a new token.
    """
    primitive = jax_core().Primitive(name)

    @primitive.def_abstract_eval
    def of(*operands: Any) -> Any:
        return _TOKEN if position is None else operands[position]

    def alone(*operands: Any) -> Any:
        return jnp.array(True) if position is None else operands[position]

    # Inside a function that JAX transforms within the trace, nothing is recomputed.
    mlir.register_lowering(primitive, mlir.lower_fun(alone, multiple_results=False))
    batching.primitive_batchers[primitive] = lambda operands, dims: (
        alone(*operands), None if position is None else dims[position]
    )  # fmt: skip
    ad.primitive_jvps[primitive] = lambda primals, tangents: (
        alone(*primals), ad.Zero(_TOKEN) if position is None else tangents[position]
    )  # fmt: skip
    return primitive


@functools.cache
def _begin() -> Any:
    """Marks the beginning of a region, and returns the region's token."""
    return _primitive("region_to_recompute", None)


@functools.cache
def _again() -> Any:
    """Marks that a backward has reached a region, and returns the token of the recomputation.

    The operands are the region's token, a scalar from `_withheld_truth` and, inside another
    region, the token of that region's recomputation.
    """
    return _primitive("recomputation", None)


@functools.cache
def _value() -> Any:
    """Marks a value to recompute; the operands are the recomputation's token and the value."""
    return _primitive("recomputed", 1)


@jax.jit
def _withheld_truth(cotangents: Sequence[Any]) -> Any:
    """True, which XLA does not know before it has computed the cotangents."""
    total = sum(jnp.sum(jnp.real(each)).astype(jnp.float32) for each in cotangents)
    return (lax.bitcast_convert_type(total, jnp.uint32) | 1) != 0


@jax.jit
def _held_back(truth: Any, array: Any) -> Any:
    """``array``, which is not available before ``truth`` is known."""
    # A constant as the alternative would become a residual of the forward program.
    return jnp.where(truth, array, truth.astype(array.dtype))


class Progress:
    """The progress of a backward in a trace.

    Attributes:
        cotangents: The cotangents of the running node.
        tokens: The tokens of the regions that backward has reached.
        is_asked: Whether the running node has asked for a recomputed value.
        gradients: The gradients of the last node, without ``None``.
    """

    def __init__(self) -> None:
        self.cotangents: list[Any] = []
        self.tokens: dict[Region, Any] = {}
        self.is_asked: bool = False
        self.gradients: list[Any] = []

    @classmethod
    def of(cls, run: engine.Backward) -> Progress:
        """The progress of a run of the engine, kept among its notes."""
        if cls not in run.notes:
            run.notes[cls] = cls()
        return run.notes[cls]

    def pulled(self, gradients: Any) -> Any:
        """Note the gradients of the node that has run, and return them."""
        if self.is_asked:
            gradients = [*gradients]
            self.gradients = [each for each in gradients if each is not None]
            self.is_asked = False
        return gradients


class Region:
    """A ``with`` block in a trace: backward recomputes the values that its operators save.

    Values from outside of the block are kept.
    """

    def __enter__(self) -> None:
        self._trace = modes.trace
        self._before = before = modes.packing
        self._hooks = Hooks(Tensor._read, self._unpack, self)
        outer = None if before is None else before.region
        self._outer: Region | None = outer if isinstance(outer, Region) else None
        self._token = _begin().bind()
        self._first, self._last = sequence_now(), -1
        modes.packing = self._hooks

    def __exit__(self, *exception: object) -> None:
        modes.packing = self._before
        self._last = sequence_now()

    def _unpack(self, array: Any) -> Tensor:
        token = self._again() if modes.trace is self._trace and capture() is None else None
        return Tensor._wrap(array if token is None else _value().bind(token, array))

    def _again(self) -> Any:
        """The token of this region's recomputation; ``None`` if no backward is running.

        The tape runs the newest nodes first. So when it reaches the first node of this region, the
        cotangents of all of its results have arrived. Cotangents may be constants, as for the terms
        of a loss, so the recomputation also waits for the gradients of the region before.
        """
        run = engine.running()
        if run is None or self._last < 0:
            return None
        progress = Progress.of(run)
        if self not in progress.tokens:
            buffers = [progress.cotangents, progress.gradients[:1]]
            buffers += [
                buffer
                for node, buffer in run.buffers.items()
                if self._first <= node.sequence < self._last and not node.accumulates
            ]
            cotangents = [value_of(e) for buffer in buffers for e in buffer if e is not None]
            arrays = [each._read() if isinstance(each, Tensor) else each for each in cotangents]
            outer = None if self._outer is None else self._outer._again()
            operands = [self._token, _withheld_truth(arrays)]
            token = _again().bind(*operands, *([] if outer is None else [outer]))
            progress.tokens[self] = token
        progress.is_asked = True
        return progress.tokens[self]


def expanded(jaxpr: Any) -> Any:
    """``jaxpr`` with the recomputations of its regions."""
    begin = _begin()
    if not any(equation.primitive is begin for equation in jaxpr.eqns):
        return jaxpr
    return _Expansion().run(jaxpr)


class _Copies(NamedTuple):
    """One recomputation of a region.

    Attributes:
        start: The number of equations before the region.
        truth: The condition that holds back the region's inputs.
        outer: The recomputation of the region around it.
        known: The copies of the variables and inputs of the region.
    """

    start: int
    truth: Any
    outer: _Copies | None
    known: dict[Any, Any]


class _Expansion:
    """The equations of an expanded jaxpr, under construction."""

    def __init__(self) -> None:
        self.equations: list[Any] = []
        # The number of the equation that computes each variable.
        self.origin: dict[Any, int] = {}
        self.starts: dict[Any, int] = {}
        self.recomputations: dict[Any, _Copies] = {}
        # The values of the variables of notes.
        self.values: dict[Any, Any] = {}

    def run(self, jaxpr: Any) -> Any:
        """``jaxpr`` without notes."""
        for equation in jaxpr.eqns:
            operands = [self._resolved(each) for each in equation.invars]
            if equation.primitive is _begin():
                self.starts[equation.outvars[0]] = len(self.equations)
            elif equation.primitive is _again():
                token, truth, *outer = equation.invars
                around = self.recomputations[outer[0]] if outer else None
                copies = _Copies(self.starts[token], self._resolved(truth), around, {})
                self.recomputations[equation.outvars[0]] = copies
            elif equation.primitive is _value():
                copies = self.recomputations[equation.invars[0]]
                self.values[equation.outvars[0]] = self._copy(copies, operands[1])
            else:
                self._add(equation.replace(invars=operands))
        outvars = [self._resolved(each) for each in jaxpr.outvars]
        return jaxpr.replace(eqns=self.equations, outvars=outvars)

    def _resolved(self, atom: Any) -> Any:
        return atom if isinstance(atom, jax_core().Literal) else self.values.get(atom, atom)

    def _add(self, equation: Any) -> None:
        for each in equation.outvars:
            self.origin[each] = len(self.equations)
        self.equations.append(equation)

    def _copy(self, copies: _Copies, atom: Any) -> Any:
        """The copy of ``atom`` in a recomputation; the equations that it needs are added."""
        known, literal = copies.known, jax_core().Literal
        waiting, needed = [atom], set()
        while waiting:
            each = waiting.pop()
            if isinstance(each, literal) or each in known:
                continue
            origin = self.origin.get(each, -1)
            if origin < copies.start:
                source = each if copies.outer is None else self._copy(copies.outer, each)
                known[each] = self._hold_back(copies.truth, source)
            elif origin not in needed:
                needed.add(origin)
                waiting += self.equations[origin].invars
        for origin in sorted(needed):
            equation = self.equations[origin]
            operands = [e if isinstance(e, literal) else known[e] for e in equation.invars]
            results = [jax_core().Var(each.aval) for each in equation.outvars]
            known.update(zip(equation.outvars, results, strict=True))
            self._add(equation.replace(invars=operands, outvars=results))
        return atom if isinstance(atom, literal) else known[atom]

    def _hold_back(self, truth: Any, source: Any) -> Any:
        aval = source.aval
        if jnp.issubdtype(aval.dtype, jax.dtypes.extended):
            return source
        result = jax_core().Var(aval)
        template = _template(aval)
        self._add(template.replace(invars=[truth, source], outvars=[result]))
        return result


@functools.lru_cache(maxsize=1024)
def _template(aval: Any) -> Any:
    """The equation of `_held_back` for an array."""
    (equation,) = jax.make_jaxpr(_held_back)(_TOKEN, aval).jaxpr.eqns
    return equation
