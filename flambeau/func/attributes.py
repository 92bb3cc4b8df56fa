"""Assignments of a module to its own attributes while a transformation runs it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import jax
from jax.core import Tracer

from flambeau.core.values.inside import capture
from flambeau.core.values.tensor import Tensor
from flambeau.nn.module import Module

_Table = dict[str, Any]


@contextlib.contextmanager
def kept_attributes(module: Module) -> Iterator[None]:
    """Keep values that exist only during a transformation out of a module's attributes.

    Such values are removed at the end of the block. Values that a forward pre-hook recomputes
    before each call, as `nn.utils.weight_norm` does, are removed silently.

    Args:
        module: The module; its submodules are included.

    Raises:
        RuntimeError: The module assigned other such values.
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
    """The dictionaries that hold a module's attributes, with the module's name."""
    for name, each in module.named_modules():
        prefix = f"{name}." if name else ""
        yield from ((prefix, table) for table in (vars(each), each._parameters, each._buffers))


def _recomputed(module: Module) -> set[str]:
    """The attributes that the library's forward pre-hooks compute, with the module's name."""
    return {
        f"{name}.{computed}" if name else computed
        for name, each in module.named_modules()
        for hook in each._forward_pre_hooks.values()
        for computed in (getattr(hook, "name", None), getattr(hook, "_tensor_name", None))
        if isinstance(computed, str)
    }


def _take_out(before: list[tuple[str, _Table, _Table]]) -> list[str]:
    """Restore the previous values, and name the values that had replaced them."""
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
    """Whether a value, or a member of it, exists only during a JAX transformation."""
    leaves = jax.tree.leaves(value, is_leaf=lambda each: isinstance(each, Tensor))
    arrays = (each._cell.array if isinstance(each, Tensor) else each for each in leaves)
    return any(isinstance(each, Tracer) for each in arrays)
