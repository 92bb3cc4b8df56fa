"""Checks in traced functions of the arguments that they were specialized to."""

from __future__ import annotations

from flambeau.core.overrides import asks


@asks
def _assert_is_none(value: object, msg: str) -> None:
    if value is not None:
        raise AssertionError(msg)


# Generated code calls it by this name, as PyTorch's does.
_assert_is_none.__module__ = "flambeau.fx._symbolic_trace"
