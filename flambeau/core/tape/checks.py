"""The checks that `compiler.checks` asks for: indices out of range, and NaN."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import Tracer

from flambeau.core.kernels.kernel import Kernel
from flambeau.core.programs.deferred import computed
from flambeau.core.support import world
from flambeau.core.tape import anomaly

__all__: list[str] = []

#: Whether indices are checked in compiled functions, and on all devices.
indices: bool = False
#: Whether the results of operators are checked for NaN.
nan: bool = False


class checks:
    """Set which values are checked when functions run, from now on or for a block, in all threads.

    A compiled function computes the checks in its program. If one fails, the call changes nothing
    and runs again eagerly, which raises the error of eager code, from the line of the operator.
    While a check is on, a call waits for its result, and needs memory for the new values beside the
    old ones. Turning a check on or off compiles other programs.

    Inside `func.vmap`, `func.jvp`, the condition of a `while_loop` and JAX's own functions nothing
    is checked.

    Args:
        indices: Whether an index or a class label out of range is an error in compiled functions,
            and on other devices than the CPU; eager code on the CPU always checks. By default the
            result is NaN there, and nothing is written.
        nan: Whether an operator that gives NaN for inputs without NaN is an error, and a gradient
            that is NaN, as in `autograd.detect_anomaly`. A compiled function runs again if one of
            its results, or of the values that it writes, has a NaN.

    The environment variable ``FLAMBEAU_CHECKS=indices,nan`` turns them on from the start.

    Raises:
        TypeError: An argument is not a bool.

    >>> import flambeau
    >>> pick = flambeau.compile(lambda x, index: x.index_select(0, index))
    >>> with flambeau.compiler.checks(indices=True):
    ...     pick(flambeau.ones(3), flambeau.tensor([1, 2]))
    tensor([1., 1.])
    """

    def __init__(self, *, indices: bool | None = None, nan: bool | None = None) -> None:
        for name, value in (("indices", indices), ("nan", nan)):
            if value is not None and not isinstance(value, bool):
                kind = type(value).__name__
                raise TypeError(f"checks(): {name} must be a bool, got {kind}")
        self._before = now()
        self._anomaly = anomaly.enabled, anomaly.check_nan
        _set(*(b if a is None else a for a, b in zip((indices, nan), now(), strict=True)))
        if nan is not None:
            anomaly.set_mode(nan)

    def __enter__(self) -> None:
        """Keep the settings of the constructor."""

    def __exit__(self, *exception: object) -> None:
        """Restore the previous settings."""
        _set(*self._before)
        anomaly.set_mode(*self._anomaly)


def now() -> tuple[bool, bool]:
    """The present settings: `indices` and `nan`."""
    return indices, nan


def _set(wanted_indices: bool, wanted_nan: bool) -> None:
    global indices, nan
    indices, nan = wanted_indices, wanted_nan
    # The fast path of compiled functions does not ask.
    world.bump()


def _from_environment() -> None:
    names = [each.strip() for each in os.environ.get("FLAMBEAU_CHECKS", "").split(",")]
    wanted = {each: True for each in names if each}
    if unknown := wanted.keys() - {"indices", "nan"}:
        raise ValueError(
            f"FLAMBEAU_CHECKS in the environment lists 'indices' and 'nan', got {min(unknown)!r}"
        )
    if wanted:
        checks(**wanted)


_from_environment()


def has_no_nan(arrays: Sequence[Any]) -> Any:
    """Whether no array has a NaN: a bool array of shape ``()``."""
    found = [jnp.isnan(each).any() for each in arrays if _may_be_nan(each)]
    return ~jnp.stack(found).any() if found else jnp.array(True)


def _may_be_nan(array: Any) -> bool:
    return hasattr(array, "dtype") and jnp.issubdtype(array.dtype, jnp.inexact)


def refuse_nan(kernel: Kernel, inputs: Sequence[Any], results: Any) -> None:
    """Raise a RuntimeError if an operator gave NaN for inputs without NaN.

    Args:
        kernel: The operator.
        inputs: Its operands; without any, as in `full`, a NaN is wanted.
        results: Arrays, perhaps in nested tuples.
    """
    found = [computed(each) for each in jax.tree.leaves(results)]
    if any(isinstance(each, Tracer) for each in found) or has_no_nan(found):
        return
    given = [computed(each) for each in inputs if hasattr(each, "dtype")]
    if not given or not has_no_nan(given) or any(map(_is_nan, (*inputs, *_static(kernel)))):
        return
    shapes = ", ".join(f"{each.dtype}{list(each.shape)}" for each in given)
    raise RuntimeError(f"{kernel.name}() gave nan for inputs without nan ({shapes})")


def _static(kernel: Kernel) -> Sequence[Any]:
    return next(iter(getattr(kernel.function, "args", ())), ())


def _is_nan(value: Any) -> bool:
    return isinstance(value, float | complex) and value != value
