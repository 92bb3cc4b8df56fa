"""Objects of dataclasses that the function replaces at each call.

For example ``self.state = State(self.state.hidden + x)``. The program then reads the tensors from
the present object, unless the object that the trace has found is also reached in another way.
"""

from __future__ import annotations

from typing import Any

from flambeau.compile.containers import leaves_in
from flambeau.compile.contents import objects_in
from flambeau.compile.ownership import attributes_of, state_of
from flambeau.compile.places import Outside
from flambeau.compile.reaching import led_to


def objects_that_stay(recording: Any, returned: Any) -> list[tuple[Any, Any]]:
    """The slots that must hold the same object as in the trace, with that object.

    In all other slots, attributes are read from the present object.

    Args:
        recording: The trace, with the slots that the function sets.
        returned: The result of the function.
    """
    trace = recording.trace
    in_slots = [(slot, [*objects_in(before)], before) for slot, before in recording.slot_before]
    if not any(objects for _, objects, _ in in_slots):
        return []
    fields = {
        id(each): [Outside(each, None, (name,)) for name in attributes_of(each)]
        for _, objects, _ in in_slots
        for each in objects
    }
    own = {place for places in fields.values() for place in places}
    roots = [slot.root for slot, _ in recording.assigned if isinstance(slot, Outside)]
    elsewhere = [*trace.values_elsewhere(own), *recording.joined.leaves]
    ids = {*map(id, roots), *map(id, left_by(recording, returned))}
    staying: list[tuple[Any, Any]] = []
    while True:
        ids |= {id(each) for each in leaves_in(elsewhere)}
        new = [each for each in in_slots if _is_known(each[1], ids)]
        if not new:
            break
        in_slots = [each for each in in_slots if not _is_known(each[1], ids)]
        for slot, objects, before in new:
            staying.append((slot, before))
            elsewhere += [attributes_of(each) for each in objects]
    for _, objects, _ in in_slots:
        for each in objects:
            for place in fields[id(each)]:
                trace.ignore(place)
    return staying


def _is_known(objects: list[Any], ids: set[int]) -> bool:
    known = [id(each) for each in (*objects, *map(state_of, objects))]
    return not ids.isdisjoint(known) or len({*map(id, objects)}) < len(objects)


def left_by(recording: Any, returned: Any) -> list[Any]:
    """All objects that the function stores or returns."""
    log = recording.trace.log
    stored = [returned, *(value for _, value in recording.assigned)]
    stored += [each.args for each in log.changes]
    stored += [each.content() for each in log.watches.values() if each.rewritten]
    return [*led_to([stored], recording.trace.reads_outside.knows)]
