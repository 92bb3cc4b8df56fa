"""Recording a sequence while its calls run."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import SingleDeviceSharding

from flambeau.core.fusion.sequence import Form, Fusible, Placement, Point, Result, Step, leaves_of
from flambeau.core.programs.deferred import Deferred
from flambeau.core.programs.forms import form_of
from flambeau.core.support.jax_private import ArrayImpl
from flambeau.core.support.tracebacks import user_line
from flambeau.core.types import Args, Leaf, PyTreeDef, Tree

# Larger NumPy arrays are not copied for a call that waits.
_SMALL = 1024

_NUMBERS = frozenset({int, float, bool, complex, type(None)})


class Recorder:
    """A sequence that is being recorded while its calls run.

    Attributes:
        point: How far it has come.
        outside: The arguments from outside, in the place of arrays their `Result`.
        found: How many points are new.
    """

    # A recorded step overwrites nothing more than another one.
    held: frozenset[int] = frozenset()

    def __init__(self, root: Point) -> None:
        self.point: Point = root
        self.outside: list[Leaf] = []
        self.found: int = 0
        self._call: Any = None
        self._closing: tuple[Step, Fresh] | None = None
        self.program: Any = None
        # For the identity of an array a weak reference to it and its origin.
        self.origins: dict[int, tuple[Any, int]] = {}
        self.results: list[weakref.ref[jax.Array]] = []

    def kept(self) -> frozenset[int]:
        """The results that are still referred to."""
        return frozenset(i for i, each in enumerate(self.results) if each() is not None)

    def add(self, step: Step, fresh: Fresh, results: Tree) -> bool:
        """Add a call that has run; ``False`` if it cannot be a part of a sequence.

        Args:
            step: The call.
            fresh: Its new arguments from outside.
            results: Its results.
        """
        arrays, structure = leaves_of(results)
        if not all(map(_is_simple, arrays)):
            return False
        for point in self.point.after:
            if point.step == step:
                break
        else:
            facts = [Result(each.aval, each.sharding, each.committed) for each in arrays]
            point = Point(self.point, step, facts, structure)
            point.line = user_line()
            self.found += 1
            self.point.after.insert(0, point)
        for index, each in zip(point.own(), arrays, strict=True):
            reference = weakref.ref(each)
            self.results.append(reference)
            self.origins[id(each)] = reference, index
        self.outside.extend(fresh.values)
        self.origins.update(fresh.origins)
        self.point = point
        return True

    def is_far(self, array: object) -> bool:
        """Whether ``array`` is a result to which many calls lead; see `Point.is_far`."""
        reference, index = self.origins.get(id(array), (None, -1))
        return index >= 0 and reference() is array and self.point.is_far(index)

    def closing(self, call: Fusible) -> Recorder:
        """This, for the last call of the sequence; see `Closing` for what follows."""
        self._call, self.program = call, call.fast
        return self

    def arguments(self, given: Args) -> Args:
        """``given``, the arguments of the last call."""
        self._closing = step_of(self, self._call, given)
        return given

    def write(self, results: Tree) -> Tree:
        """``results``, those of the last call, which is added."""
        closing, self._closing = self._closing, None
        if closing is not None:
            step, fresh = closing
            self.add(step, fresh, results)
        return results


class Fresh(NamedTuple):
    """The arguments of a call that come from outside for the first time.

    Attributes:
        values: The arguments, in the place of arrays their `Result`.
        origins: What `Recorder.origins` says of them once the call has run: one that fails is no
            part of the sequence.
    """

    values: list[Leaf]
    origins: dict[int, tuple[Any, int]]


def step_of(recorder: Recorder, call: Fusible, arguments: Args) -> tuple[Step, Fresh] | None:
    """A call as a step of a sequence, and its new arguments from outside, if it can be one."""
    leaves, tree = _flat(arguments)
    sources: list[int] = []
    forms: list[Form] = []
    placements: list[Placement] = []
    fresh = Fresh([], {})
    for each in leaves:
        kind = type(each)
        form: Form = kind
        placement = None
        place = len(recorder.outside) + len(fresh.values)
        if kind is ArrayImpl:
            known = fresh.origins.get(id(each)) or recorder.origins.get(id(each))
            if known is not None and known[0]() is each:
                sources.append(known[1])
                forms.append(None)
                placements.append(None)
                continue
            if not _is_simple(each):
                return None
            form, placement = form_of(each.aval), (each.sharding, each.committed)
            fresh.origins[id(each)] = weakref.ref(each), ~place
            each = Result(each.aval, each.sharding, each.committed)
        elif isinstance(each, np.ndarray):
            if each.nbytes > _SMALL:
                return None
            form, each = (kind, each.shape, each.dtype), each.copy()
        elif isinstance(each, np.generic):
            form = kind, each.dtype
        elif kind not in _NUMBERS:
            return None
        sources.append(~place)
        forms.append(form)
        placements.append(placement)
        fresh.values.append(each)
    return Step(call, tuple(sources), tuple(forms), tuple(placements), tree), fresh


def _flat(arguments: Args) -> tuple[Sequence[Leaf], PyTreeDef]:
    for each in arguments:
        if type(each) not in _FLAT:
            return jax.tree.flatten(arguments)
    return arguments, None


_FLAT = _NUMBERS | {ArrayImpl, Deferred, np.ndarray}


def _is_simple(array: object) -> bool:
    return type(array) is ArrayImpl and type(array.sharding) is SingleDeviceSharding
