"""Parts of a traced program that its backward computes again instead of keeping what they computed.

While a `Region` is open, the tape's nodes know that what they save belongs to it. Where backward
asks for such a value, the trace gets a note; once it is complete, `expanded` puts copies of the
operations that lead to these values in the notes' place. So the user's function is called once, and
what it has drawn and written counts once.

XLA would find that the copies compute known values, and keep these after all. JAX's own
checkpointing stops it by optimization barriers, which the versions of XLA that come with JAX 0.10
drop early in programs for the CPU. Here the copies start from inputs that are selected by a
condition which is always true, but which XLA cannot know before it has the cotangents: that needs
nothing of the backend.
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

from flambeau.core import engine
from flambeau.core.inside import capture
from flambeau.core.jax_core import jax_core
from flambeau.core.lazy_cotangent import value_of
from flambeau.core.modes import modes
from flambeau.core.node import sequence_now
from flambeau.core.packing import Hooks
from flambeau.core.tensor import Tensor

_TOKEN = ShapedArray((), jnp.dtype("bool"))


def _primitive(name: str, position: int | None) -> Any:
    """A note in a trace, which does nothing.

    Args:
        name: Its name.
        position: Which operand it passes on; ``None`` for a new token.
    """
    primitive = jax_core().Primitive(name)

    @primitive.def_abstract_eval
    def of(*operands: Any) -> Any:
        return _TOKEN if position is None else operands[position]

    def alone(*operands: Any) -> Any:
        return jnp.array(True) if position is None else operands[position]

    # Inside a function that JAX transforms within the trace, nothing is computed again.
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
    """Here a region begins. Gives a token that stands for it."""
    return _primitive("region_to_recompute", None)


@functools.cache
def _again() -> Any:
    """A backward has come to a region. Gives a token that stands for computing it again.

    Its operands are the region's token, a scalar from `_withheld_truth` and, if there is a region
    around it, the token for computing that again.
    """
    return _primitive("recomputation", None)


@functools.cache
def _value() -> Any:
    """A value that is to be computed again; its operands are the token for that, and the value."""
    return _primitive("recomputed", 1)


@jax.jit
def _withheld_truth(cotangents: Sequence[Any]) -> Any:
    """True, which XLA finds out only when it has computed the cotangents."""
    total = sum(jnp.sum(jnp.real(each)).astype(jnp.float32) for each in cotangents)
    return (lax.bitcast_convert_type(total, jnp.uint32) | 1) != 0


@jax.jit
def _held_back(truth: Any, array: Any) -> Any:
    """``array``, not before ``truth`` is known."""
    # A constant as the alternative would be kept from the forward program for the backward program.
    return jnp.where(truth, array, truth.astype(array.dtype))


class Progress:
    """How far a backward in a trace has come.

    Attributes:
        cotangents: Those of the node that is running.
        tokens: The token of each region that has been met.
        is_asked: Whether the node that is running has asked for something to be computed again.
        gradients: The gradients that the last node gave, without those that are ``None``.
    """

    def __init__(self) -> None:
        self.cotangents: list[Any] = []
        self.tokens: dict[Region, Any] = {}
        self.is_asked: bool = False
        self.gradients: list[Any] = []

    @classmethod
    def of(cls, run: engine.Backward) -> Progress:
        """The progress of a run of the engine, kept among its notes."""
        found = run.notes.get(cls)
        if found is None:
            found = run.notes[cls] = cls()
        return found

    def pulled(self, gradients: Any) -> Any:
        """Note the gradients of the node that was running, and return them."""
        if self.is_asked:
            gradients = [*gradients]
            self.gradients = [each for each in gradients if each is not None]
            self.is_asked = False
        return gradients


class Region:
    """A ``with`` block in a trace: backward computes again what the operators inside save for it.

    Values that the block takes from outside are kept.
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
        """The token for computing this again in the backward that is running; ``None`` if none is.

        The tape runs the newest nodes first. So when it comes to the first node of this region, all
        that leads here from outside has arrived: the cotangents of all of its results. These may
        be constants, as those of the terms of a loss are; so it also waits for the gradients of
        the region before.
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
    """A jaxpr where what `Region` was to compute again is computed again."""
    begin = _begin()
    if not any(equation.primitive is begin for equation in jaxpr.eqns):
        return jaxpr
    return _Expansion().run(jaxpr)


class _Copies(NamedTuple):
    """One recomputation of a region.

    Attributes:
        start: How many equations come before the region.
        truth: What its inputs are held back by.
        outer: The recomputation of the region around it.
        known: For each variable inside the region and each of its inputs, the copy.
    """

    start: int
    truth: Any
    outer: _Copies | None
    known: dict[Any, Any]


class _Expansion:
    """The equations of a jaxpr, while they are put together."""

    def __init__(self) -> None:
        self.equations: list[Any] = []
        # For each variable, which equation gives it.
        self.origin: dict[Any, int] = {}
        self.starts: dict[Any, int] = {}
        self.recomputations: dict[Any, _Copies] = {}
        # What stands for the variables of notes.
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
                made = _Copies(self.starts[token], self._resolved(truth), around, {})
                self.recomputations[equation.outvars[0]] = made
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
        """What ``atom`` is in a recomputation, which is made as far as that needs it."""
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
