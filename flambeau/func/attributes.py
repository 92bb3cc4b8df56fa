"""Assignments of a module to its own attributes while a transformation runs it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import jax
from jax.core import Tracer

from flambeau.core.inside import capture
from flambeau.core.tensor import Tensor
from flambeau.nn.module import Module

_Table = dict[str, Any]


@contextlib.contextmanager
def kept_attributes(module: Module) -> Iterator[None]:
    """Let no value that exists only during a transformation stay in a module.

    Such values are taken out again at the end of the block. Those that a forward pre-hook computes
    again before each call, as `nn.utils.weight_norm` does, are no loss.

    Args:
        module: The module; those below it count as well.

    Raises:
        RuntimeError: There were others.
    """
    if capture() is None:
        yield
        return
    before = [(prefix, table, dict(table)) for prefix, table in _tables(module)]
    try:
        yield
    except BaseException:
        _take_out(before)
        raise
    recomputed = _recomputed(module)
    assigned = [name for name in _take_out(before) if name not in recomputed]
    if assigned:
        raise RuntimeError(
            f"functional_call(): {type(module).__name__} assigned {assigned} while JAX transforms "
            "it, but what it assigned exists only there. Return the value instead; or make it a "
            "buffer, give the buffer to functional_call() as a Tensor, and write to it in place"
        )


def _tables(module: Module) -> Iterator[tuple[str, _Table]]:
    """The dictionaries that assignment to a module's attributes writes to, with its name."""
    for name, each in module.named_modules():
        prefix = f"{name}." if name else ""
        yield from ((prefix, table) for table in (vars(each), each._parameters, each._buffers))


def _recomputed(module: Module) -> set[str]:
    """The attributes that forward pre-hooks of the library compute, with the module's name."""
    return {
        f"{name}.{computed}" if name else computed
        for name, each in module.named_modules()
        for hook in each._forward_pre_hooks.values()
        for computed in (getattr(hook, "name", None), getattr(hook, "_tensor_name", None))
        if isinstance(computed, str)
    }


def _take_out(before: list[tuple[str, _Table, _Table]]) -> list[str]:
    """Put back what was there, and name what had come in its place."""
    names = []
    for prefix, table, old in before:
        for name, value in list(table.items()):
            if value is not old.get(name) and _is_passing(value):
                names.append(prefix + name)
                if name in old:
                    dict.__setitem__(table, name, old[name])
                else:
                    dict.pop(table, name)
    return names


def _is_passing(value: Any) -> bool:
    """Whether a value, or one in it, exists only while JAX transforms."""
    leaves = jax.tree.leaves(value, is_leaf=lambda each: isinstance(each, Tensor))
    arrays = (each._cell.array if isinstance(each, Tensor) else each for each in leaves)
    return any(isinstance(each, Tracer) for each in arrays)
