"""One pure function of arrays, and its compiled, gradient, tangent and meta forms.

A `Kernel` is an operator with its static arguments bound. The gradient of a kernel is a kernel, and
so is its tangent, so one mechanism gives gradients of any order, and of tangents.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray
from jax.interpreters.partial_eval import dce_jaxpr

from flambeau.core.fusion.seam import fusible
from flambeau.core.kernels.pushing import push
from flambeau.core.programs.deferred import ARRAYS
from flambeau.core.support import dtype as dtypes
from flambeau.core.support.generations import Generations
from flambeau.core.types import Contents, Function, Key, Leaf, Tree

Arrays = tuple[Leaf, ...]

#: The NumPy dtypes that gradients can have.
INEXACT = {each.numpy for each in dtypes.ALL_DTYPES if each.category >= dtypes.FLOATING}


class Kernel:
    """A pure function of arrays with all static arguments bound.

    Args:
        function: Arrays in, one array or a tuple of arrays out. Entries may be ``None`` or Python
            numbers, which take no gradient.
        name: The operator's name, for messages.
        node_name: The class name of its node on the tape, such as ``"MulBackward0"``.
        overloads: Other names of the node, by the kinds of the inputs: for each ``t`` for a tensor,
            ``n`` for a number and ``-`` for ``None``.
        linear: The gradient needs only the shapes of floating point and complex inputs, so the tape
            keeps these shapes instead of the arrays. It keeps indices, masks and numbers unchanged.
        keep_residuals: The forward keeps JAX's residuals, so that the gradient does not run the
            forward again; for functions that are expensive to recompute.
        differentiable: ``False`` for functions whose results never take a gradient.
    """

    __slots__ = (
        "_abstract", "_followed", "_gradients", "_used", "differentiable", "face", "forward",
        "function", "keep_residuals", "linear", "name", "node_name", "overloads", "returns",
    )  # fmt: skip

    #: The compiled function, made on first use.
    forward: Function

    #: Computes the kernel on tensors; set by `dispatch`.
    run: ClassVar[Function]

    def __init__(
        self,
        function: Function,
        name: str,
        node_name: str,
        *,
        linear: bool = False,
        keep_residuals: bool = False,
        differentiable: bool = True,
        returns: Function | None = None,
        face: Function | None = None,
        overloads: dict[str, str] | None = None,
    ) -> None:
        self.function: Function = function
        self.name: str = name
        self.node_name: str = node_name
        self.overloads: dict[str, str] | None = overloads
        self.linear: bool = linear
        self.keep_residuals: bool = keep_residuals
        self.differentiable: bool = differentiable
        self.returns: Function | None = returns
        self.face: Function | None = face
        self._abstract = Generations()
        self._gradients = Generations()
        self._followed = Generations()
        self._used = Generations()

    def __getattr__(self, name: str) -> Any:
        # Only called while the slot is empty; later reads bypass it.
        if name != "forward":
            raise AttributeError(f"a Kernel has no attribute '{name}'")
        self.forward = fusible(self.function, self.name)
        return self.forward

    def on_meta(self, arrays: Arrays) -> Tree:
        """The shapes and dtypes of the results for inputs that may have only shapes and dtypes."""
        key = _signature(arrays)
        try:
            return self._abstract[key]
        except KeyError:
            found = self._abstract[key] = jax.eval_shape(self.function, *arrays)
            return found

    def used(self, arrays: Arrays) -> tuple[bool, ...]:
        """The inputs that the results depend on, for inputs of these shapes and dtypes.

        The gradient of ``2 * x``, for one, does not depend on ``x``.
        """
        key = _signature(arrays)
        try:
            return self._used[key]
        except KeyError:
            found = self._used[key] = tuple(_used_inputs(self.function, arrays))
            return found

    def saved(self, arrays: Sequence[Leaf]) -> Arrays:
        """The part of the inputs that the tape keeps for the gradient."""
        return tuple([_aval(each) for each in arrays]) if self.linear else tuple(arrays)

    def gradient(
        self, needs: tuple[bool, ...], given: tuple[bool, ...], saved: Arrays
    ) -> tuple[Kernel, Arrays]:
        """The kernel that computes the cotangents of some inputs.

        Args:
            needs: Which inputs' cotangents are wanted.
            given: Which outputs have a cotangent; the others are zero.
            saved: The result of `saved`.

        Returns:
            A kernel that returns a tuple with one cotangent per wanted input, and the arrays it
            takes before the given cotangents.
        """
        if self.linear:
            avals = tuple([each if type(each) in _AVALS else None for each in saved])
            arrays = tuple([each for each in saved if type(each) not in _AVALS])
            key: Key = (needs, given, avals)
        else:
            avals, arrays = (), saved
            key = (needs, given)
        try:
            kernel = self._gradients[key]
        except KeyError:
            function = functools.partial(_cotangents, self.function, needs, given, avals)
            kernel = Kernel(function, f"{self.name}_backward", f"{self.node_name[:-1]}Backward0")
            self._gradients[key] = kernel
        return kernel, arrays

    def tangent(self, given: tuple[bool, ...], constants: int = 0) -> Kernel:
        """The kernel that computes the tangents of the results.

        Args:
            given: Which of the inputs, without the constants, have a tangent.
            constants: The number of trailing inputs without a tangent.

        Returns:
            A kernel that takes the inputs without the constants, the tangents, and the constants,
            and gives a tuple with one tangent per result that can have one.
        """
        key = ("tangent", given, constants)
        try:
            kernel = self._gradients[key]
        except KeyError:
            function = functools.partial(_tangents, self.function, given, constants)
            kernel = Kernel(function, f"{self.name}_tangent", f"{self.node_name[:-1]}Tangent0")
            self._gradients[key] = kernel
        return kernel

    def followed_by(self, other: Kernel, count: int) -> Kernel:
        """The composition with another kernel, which takes this one's only result.

        Args:
            other: Takes some arrays and then this kernel's result.
            count: The number of arrays that this kernel takes.

        Returns:
            A kernel that takes this one's arrays and then the other's, and gives the other's
            results.
        """
        try:
            kernel = self._followed[other, count]
        except KeyError:
            function = functools.partial(_chained, self.function, count, other.function)
            kernel = Kernel(function, f"{self.name}_{other.name}", other.node_name)
            self._followed[other, count] = kernel
        return kernel

    def forward_with_residuals(self, needs: tuple[bool, ...]) -> Function:
        """The compiled function that also gives JAX's vjp function; see ``keep_residuals``."""
        key = ("residuals", needs)
        try:
            return self._gradients[key]
        except KeyError:
            function = functools.partial(_with_residuals, self.function, needs)
            program = self._gradients[key] = fusible(function, f"{self.name}_with_residuals")
            return program


def _signature(arrays: Arrays) -> Key:
    return tuple(
        (tuple(each.shape), np.dtype(each.dtype)) if hasattr(each, "dtype") else type(each)
        for each in arrays
    )


def _used_inputs(function: Function, arrays: Arrays) -> list[bool]:
    avals = [
        jax.ShapeDtypeStruct(each.shape, each.dtype) if hasattr(each, "dtype") else each
        for each in arrays
    ]
    jaxpr = jax.make_jaxpr(function)(*avals).jaxpr
    _, used = dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars))
    remaining = iter(used)
    return [each is not None and next(remaining) for each in avals]


# The types with an `_aval`; looked up for every input of every linear node.
_AVALS = {ShapedArray, jax.ShapeDtypeStruct}


def _aval(array: Leaf) -> Leaf:
    """The shape and dtype of an array that can take a gradient; any other value unchanged."""
    if type(array) in ARRAYS:
        return array.aval if array.dtype in INEXACT else array
    if getattr(array, "dtype", None) not in INEXACT:
        return array
    # JAX's own arrays know it; NumPy's do not.
    aval = getattr(array, "aval", None)
    return jax.ShapeDtypeStruct(array.shape, array.dtype) if aval is None else aval


def _is_inexact(array: jax.Array) -> bool:
    return jnp.issubdtype(array.dtype, jnp.inexact)


def _conjugate(array: jax.Array) -> jax.Array:
    return jnp.conj(array) if jnp.iscomplexobj(array) else array


def _merge(arrays: Arrays, needs: tuple[bool, ...], parts: Arrays) -> list[Leaf]:
    """``arrays`` with the wanted ones replaced, in order, by ``parts``."""
    remaining = iter(parts)
    return [next(remaining) if need else each for each, need in zip(arrays, needs, strict=True)]


def _wanted(arrays: Arrays, needs: tuple[bool, ...]) -> Arrays:
    return tuple(each for each, need in zip(arrays, needs, strict=True) if need)


def _as_tuple(results: Tree) -> Arrays:
    return results if isinstance(results, tuple) else (results,)


def _cotangents(
    function: Function,
    needs: tuple[bool, ...],
    given: tuple[bool, ...],
    avals: Arrays,
    *arrays_and_cotangents: Leaf,
) -> Arrays:
    split = len(arrays_and_cotangents) - sum(given)
    arrays, cotangents = arrays_and_cotangents[:split], arrays_and_cotangents[split:]
    if avals:
        kept = iter(arrays)
        arrays = tuple(
            next(kept) if each is None else jnp.zeros(each.shape, each.dtype) for each in avals
        )

    def restricted(*parts: jax.Array) -> Arrays:
        return _wanted(_as_tuple(function(*_merge(arrays, needs, parts))), given)

    results, vjp = jax.vjp(restricted, *_wanted(arrays, needs))
    for result, cotangent in zip(results, cotangents, strict=True):
        if result.shape != cotangent.shape:
            raise RuntimeError(
                f"a gradient of shape {list(cotangent.shape)} arrived for a result of shape "
                f"{list(result.shape)}: a tensor was given another shape in place under no_grad(); "
                "do that while gradients are recorded, or on tensor.detach()"
            )
    return pull_back(vjp, cotangents)


def _tangents(
    function: Function, given: tuple[bool, ...], constants: int, *everything: Leaf
) -> Arrays:
    end = len(everything) - constants
    inputs, tangents = everything[: len(given)], everything[len(given) : end]

    def restricted(*parts: jax.Array) -> tuple[Arrays, None]:
        results = function(*_merge(inputs, given, parts), *everything[end:])
        return tuple(each for each in _as_tuple(results) if _is_inexact(each)), None

    return push(restricted, _wanted(inputs, given), tangents)[1]


def _chained(first: Function, count: int, second: Function, *arrays: Leaf) -> Tree:
    (result,) = first(*arrays[:count])
    return second(*arrays[count:], result)


def _with_residuals(
    function: Function, needs: tuple[bool, ...], *arrays: Leaf
) -> tuple[Tree, Function]:
    def with_results(*parts: jax.Array) -> tuple[Arrays, Tree]:
        results = function(*_merge(arrays, needs, parts))
        return tuple(each for each in _as_tuple(results) if _is_inexact(each)), results

    _, vjp, results = jax.vjp(with_results, *_wanted(arrays, needs), has_aux=True)
    return results, vjp


def pull_back(vjp: Function, cotangents: Arrays) -> Arrays:
    """Apply a JAX vjp function to PyTorch's cotangents, which are the conjugates of JAX's."""
    return tuple(_conjugate(each) for each in vjp(tuple(_conjugate(each) for each in cotangents)))


pull_back_compiled: Function = fusible(pull_back, "pull_back")
_add = fusible(operator.add, "add_cotangents")


def add_cotangents(left: Contents, right: Contents) -> Contents:
    """The sum of two cotangents of the same tensor."""
    return left if isinstance(left, jax.ShapeDtypeStruct) else _add(left, right)
