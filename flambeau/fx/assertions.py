"""Checks of the arguments that a traced function was specialized to."""

from __future__ import annotations

from flambeau.core.operators.overrides import asks


@asks
def _assert_is_none(value: object, msg: str) -> None:
    if value is not None:
        raise AssertionError(msg)


# Generated code refers to this name, like PyTorch's.
_assert_is_none.__module__ = "flambeau.fx._symbolic_trace"
