"""The first gear of eager code: which calls are evaluated with NumPy, and when that ends.

XLA takes 30 to 100 ms to compile an operator for new shapes; evaluating it takes a tenth of a
millisecond. So the first calls at a signature are evaluated where `gears` asks for it, until
together they have taken a quarter of the time of compiling, and then until the next moment of
`gears`: a loop, which compiles them all, loses little. Both times are estimated from shapes, and
calls are counted, so nothing depends on the clock, the disk or the machine: two runs of a script
give the same bits.
"""

from __future__ import annotations

import contextlib
import functools
import pickle
from collections.abc import Callable, Hashable
from typing import Any

import jax
import numpy as np
from jax.sharding import Sharding, SingleDeviceSharding

from flambeau.core import interpreter
from flambeau.core.devices.compiler import one_cpu, portable_forms
from flambeau.core.devices.native import native_version
from flambeau.core.interpreter.equation import Array
from flambeau.core.programs import jit_core
from flambeau.core.programs.any_sizes import (
    MOST_KEPT,
    Member,
    Sizes,
    Source,
    form_of,
    member_of,
    with_sizes,
)
from flambeau.core.programs.gears import settings
from flambeau.core.programs.store import Store
from flambeau.core.support import dtype as dtypes
from flambeau.core.support import jax_private
from flambeau.core.support.generations import Generations
from flambeau.core.support.jax_private import ArrayImpl, batched_device_put
from flambeau.core.support.statistics import statistics
from flambeau.core.types import Args, Function, JaxDevice, Key, Leaf, PyTreeDef, Tree

# A signature of which fewer calls take the time of compiling is compiled at once: the layers of one
# model use it as often, and equal calls in a row give equal bits.
_LEAST = 4

# The part of the time of compiling after which a signature changes its gear.
_PART = 0.25

# Microseconds for a call besides its plan's steps, and for compiling besides them.
_CALL = 50.0
_PROGRAM = 20_000.0


class Signature:
    """The knowledge of a function's calls with arguments of certain types.

    Args:
        plan: How to evaluate it; ``None`` if XLA must compile it.
        tree: The structure of the results.

    Attributes:
        used: How many calls have been evaluated.
        moment: When it was last asked whether that is enough; see `gears`.
    """

    __slots__ = ("moment", "plan", "tree", "used")

    def __init__(self, plan: interpreter.Plan | None, tree: PyTreeDef) -> None:
        self.used: int = 0
        self.moment: int = settings.moment
        is_evaluated = plan is not None and (
            # The first condition is the second for all small plans, and takes no time.
            _LEAST * (_CALL + plan.work) <= _PROGRAM or _calls_like_compiling(plan) >= _LEAST
        )
        self.plan: interpreter.Plan | None = plan if is_evaluated else None
        self.tree: PyTreeDef = tree if is_evaluated else None

    def __reduce__(self) -> tuple[type[Signature], Args]:
        return Signature, (self.plan, self.tree)

    def is_evaluated(self) -> bool:
        """Whether the next call is evaluated, which changes only at moments for that."""
        if self.plan is None or not settings.evaluated():
            return False
        if self.moment != settings.moment:
            self.moment = settings.moment
            most = max(1.0, _PART * _calls_like_compiling(self.plan))
            if self.used >= min(most, settings.evaluated()):
                self.plan = None
        return self.plan is not None


def _calls_like_compiling(plan: interpreter.Plan) -> float:
    """The number of calls that take the time of compiling."""
    return (_PROGRAM + plan.compiling(bool(native_version()))) / (_CALL + plan.work)


def _plan_of(traced: jax.stages.Traced) -> interpreter.Plan | None:
    try:
        return interpreter.plan_of(traced.jaxpr)
    except Exception:  # noqa: BLE001 - an unknown function, or another version of a primitive.
        return None


class FirstGear:
    """The calls of one function.

    Args:
        name: The function's name, for `statistics`.
        function: The function.
        trace: Gives it traced for arguments, as a `jax.stages.Traced`, or another function like it,
            if one is given.
        place: Gives the store and the key of what is known of arguments, from them and their
            structure; ``None`` where nothing is kept.
        place_of_template: The same for a function like it with names in the place of sizes, from
            the structure and the types of arguments.
        count: Called for each new signature.
    """

    __slots__ = (
        "_count",
        "_form",
        "_function",
        "_name",
        "_place",
        "_place_of_template",
        "_signatures",
        "_trace",
    )

    def __init__(
        self,
        name: str,
        function: Function,
        trace: Callable[..., jax.stages.Traced],
        place: Callable[[list[Leaf], PyTreeDef], tuple[Store, str] | None],
        place_of_template: Callable[[Function, PyTreeDef, str], tuple[Store, str] | None],
        count: Callable[[], None],
    ) -> None:
        self._count = count
        self._name = name
        self._place = place
        self._place_of_template = place_of_template
        self._trace = trace
        self._function = function
        # ``...`` until it is asked for.
        self._form: Any = ...
        self._signatures: Generations | None = None

    def key(self, leaves: list[Leaf], tree: PyTreeDef) -> Key | None:
        """The signature of a call; ``None`` if it is XLA's."""
        if not (settings.evaluated() or self._signatures) or not is_possible():
            return None
        facts = [*map(_fact, leaves)]
        if None in facts:
            return None
        return tree, jax_private.trace_context(), dtypes._default, *facts

    def results(
        self, key: Key, leaves: list[Leaf], arguments: Args
    ) -> tuple[Tree, jax.stages.Traced | None]:
        """The results in a tuple, or ``None`` for XLA to compute them; and the trace, if any."""
        if self._signatures is None:
            self._signatures = Generations()
        try:
            found, traced = self._signatures[key], None
        except KeyError:
            found = traced = None
        if found is None:
            # Not in the handler: a later error in a trace would keep this one, and its frame.
            if not settings.evaluated():
                return None, None
            found, traced = self._found(key, leaves, arguments)
            self._signatures[key] = found
        if not found.is_evaluated():
            return None, traced
        assert found.plan is not None
        try:
            results = _evaluated(found.plan, leaves)
        except Exception:  # noqa: BLE001 - XLA computes it, or says what is wrong.
            found.plan = None
            return None, traced
        found.used += 1
        settings.spend(_CALL + found.plan.work)
        statistics.count(self._name)
        return (found.tree.unflatten(results),), traced

    def _found(
        self, key: Key, leaves: list[Leaf], arguments: Args
    ) -> tuple[Signature, jax.stages.Traced | None]:
        """The signature of these arguments; and the trace, if it comes from one for them."""
        self._count()
        member = self._member(key)
        if member is not None and (filled := member.family.plan(member.sizes)) is not None:
            return Signature(*filled), None
        tree = key[0]
        place = self._place(leaves, tree)
        if place is not None and (kept := place[0].get(place[1])) is not None:
            try:
                found = pickle.loads(kept)
            except Exception:  # noqa: BLE001 - whatever is wrong with it, it can be traced again.
                place[0].discard(place[1])
            else:
                if member is not None and found.plan is not None:
                    member.family.note(member.sizes, found.plan)
                return found, None
        if member is not None:
            filled = member.family.open(member.sizes, self._source(member, leaves, tree))
            if filled is not None:
                return Signature(*filled), None
        traced = self._trace(arguments)
        plan, tree_of_results = _plan_of(traced), traced.out_tree
        if plan is None and native_version():
            # A program may call native kernels, which NumPy cannot; it may also save other values.
            with portable_forms():
                portable = self._trace(arguments)
            plan, tree_of_results = _plan_of(portable), portable.out_tree
        if member is not None and plan is not None:
            member.family.note(member.sizes, plan)
        found = Signature(plan, tree_of_results)
        if place is not None:
            with contextlib.suppress(Exception):  # Structures of results that cannot be pickled.
                content = pickle.dumps(found)
                if len(content) <= MOST_KEPT:
                    place[0].put(place[1], content)
        return found, traced

    def _member(self, key: Key) -> Member | None:
        """The call among those that differ in sizes only, if there may be others."""
        if self._form is ...:
            self._form = form_of(self._function)
        return None if self._form is None else member_of(self._form, key)

    def _source(self, member: Member, leaves: list[Leaf], tree: PyTreeDef) -> Source:
        def trace(sizes: Sizes) -> jax.stages.Traced:
            function, arguments = with_sizes(self._function, leaves, sizes)
            return self._trace(tree.unflatten(arguments), function)

        def place(sizes: Sizes) -> tuple[Store, str] | None:
            try:
                function, arguments = with_sizes(self._function, leaves, sizes)
            except Exception:  # noqa: BLE001 - a step of a view may compute with its sizes.
                return None
            shapes = [getattr(each, "shape", None) for each in arguments]
            return self._place_of_template(function, tree, f"{member.kinds} {shapes}")

        return Source(trace, place)


@functools.cache
def is_possible() -> bool:
    """Whether calls can be evaluated here: on a single CPU, whose state Python can set."""
    return (
        jit_core.IS_KNOWN
        and batched_device_put is not None
        and one_cpu()
        and interpreter.is_known()
    )


@functools.cache
def _memory() -> str:
    return jax.local_devices()[0].default_memory().kind


def _fact(leaf: Leaf) -> Hashable:
    """The type of an argument, as a plan depends on it; ``None`` if there is no plan for such."""
    if type(leaf) is ArrayImpl:
        sharding = leaf.sharding
        if type(sharding) is not SingleDeviceSharding or sharding.memory_kind != _memory():
            return None
        return leaf.aval, leaf.committed
    if isinstance(leaf, np.ndarray | np.generic):
        return "numpy", leaf.dtype, leaf.shape
    return type(leaf) if isinstance(leaf, bool | int | float | complex) else None


def _evaluated(plan: interpreter.Plan, leaves: list[Leaf]) -> list[jax.Array]:
    """The results of a plan, as arrays of JAX with memory of their own."""
    arrays = [_host(leaf, each) for leaf, each in zip(leaves, plan.inputs, strict=True)]
    committed = any(type(each) is ArrayImpl and each.committed for each in leaves)
    found = interpreter.run(plan, arrays)
    sharding, where = _place()
    # JAX takes the memory of results over, which nothing else may have.
    others = {*map(id, arrays), *plan.held}
    results = []
    for each, aval in zip(found, plan.avals, strict=True):
        array = np.asarray(each)
        if array.base is not None or id(array) in others or not array.flags.carray:
            array = np.array(array, order="C")
        others.add(id(array))
        results.append(batched_device_put(aval, sharding, [array], where, committed))
    return results


def _host(leaf: Leaf, kind: Array) -> np.ndarray:
    """An argument as NumPy's array, without a copy where it is JAX's."""
    if type(leaf) is ArrayImpl:
        # JAX would remember `np.asarray`, and then never give the memory to a program.
        return np.asarray(memoryview(leaf))
    return np.asarray(leaf, kind.dtype)


@functools.cache
def _place() -> tuple[Sharding, list[JaxDevice]]:
    """The sharding of results, and their device."""
    where = jax.local_devices()[0]
    return SingleDeviceSharding(where), [where]
