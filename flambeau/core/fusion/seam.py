"""Where everything computes: functions whose calls may become a part of a fused sequence."""

from __future__ import annotations

from flambeau.core.fusion.sequence import Fusible
from flambeau.core.fusion.stream import here
from flambeau.core.programs import deferred
from flambeau.core.programs.compiled import compiled
from flambeau.core.types import Function, Tree


def fusible(function: Function, name: str | None = None, *, at_once: bool = False) -> Function:
    """`programs.compiled`, whose calls may wait and be computed together with others.

    Args:
        function: A pure function of arrays, numbers and containers of them.
        name: Its name in profiles, compiler dumps and statistics; its own by default.
        at_once: Whether to compile at the first call.
    """
    fast = compiled(function, name, at_once=at_once)
    if not deferred.IS_KNOWN:
        return fast
    own = Fusible(function, fast)

    def call(*arguments: Tree) -> Tree:
        stream = here.stream
        take = stream.take
        if take is None:
            stream.note(own)
            return fast(*arguments)
        return take(own, arguments)

    call._cache_miss, call._cache_size = fast._cache_miss, fast._cache_size  # type: ignore[attr-defined]
    return call
