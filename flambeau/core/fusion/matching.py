"""Comparing a call with the next expected one of a sequence."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import numpy as np

from flambeau.core.devices import device as devices
from flambeau.core.fusion.segment import Segment
from flambeau.core.fusion.sequence import Point, structured
from flambeau.core.programs.deferred import Deferred
from flambeau.core.programs.forms import form_of
from flambeau.core.support.jax_private import ArrayImpl
from flambeau.core.types import Args, Leaf, Tree

# Integers of a program are smaller.
_LIMIT = 1 << 63


def fresh(segment: Segment, point: Point, arguments: Sequence[Leaf]) -> list[Leaf] | None:
    """The new arguments from outside, if a call is the step that leads to ``point``."""
    step = point.step
    tree = step.tree
    if tree is not None:
        arguments, given_tree = jax.tree.flatten(arguments)
        if given_tree != tree:
            return None
    sources = step.sources
    if len(arguments) != len(sources):
        return None
    outside = segment.outside
    new: list[Leaf] = []
    expected = zip(arguments, sources, step.forms, step.placements, strict=True)
    for each, source, form, placement in expected:
        kind = type(each)
        if kind is Deferred:
            if each.segment is segment:
                if each.index != source:
                    return None
                continue
            each = each.computed()
            kind = ArrayImpl
        if source >= 0:
            return None
        if form is None:
            place = ~source
            if (outside[place] if place < len(outside) else new[place - len(outside)]) is not each:
                return None
            continue
        if kind is ArrayImpl:
            aval = each.aval
            if aval is not form and form_of(aval) is not form:
                return None
            if devices.others_in_use and (each.sharding, each.committed) != placement:
                return None
        elif kind is form:
            if kind is int and not -_LIMIT <= each < _LIMIT:
                # The operator itself says so.
                return None
        elif isinstance(each, np.ndarray):
            if (kind, each.shape, each.dtype) != form:
                return None
            each = each.copy()
        elif not isinstance(each, np.generic) or (kind, each.dtype) != form:
            return None
        new.append(each)
    return new


_new = Deferred.__new__


def matched(segment: Segment, point: Point, arguments: Args) -> Tree:
    """The results of a call if it is the step that leads to ``point``; otherwise ``None``."""
    if point.step.call.donate:
        return None
    before, outside, waiting = segment.point, segment.outside, segment.waiting
    if len(waiting) != before.count or len(outside) != before.outside:
        # An interrupt has come between.
        del waiting[before.count :], outside[before.outside :]
    found = fresh(segment, point, arguments)
    if found is None:
        return None
    if found:
        outside.extend(found)
    number = before.count
    structure = point.structure
    if structure is None:
        result = _new(Deferred)
        result.facts = facts = point.results[0]
        result.aval, result.index, result.segment = facts.aval, number, segment
        waiting.append(result)
        segment.point = point
        return result
    for facts in point.results:
        result = _new(Deferred)
        result.facts, result.aval, result.index, result.segment = facts, facts.aval, number, segment
        number += 1
        waiting.append(result)
    segment.point = point
    return structured(structure, waiting[before.count :])
