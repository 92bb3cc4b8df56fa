"""Forward-mode transformations, by `jax.jvp`: `jvp`, `linearize`, `jacfwd`, and `hessian`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from flambeau.core.kernels.kernel import Kernel
from flambeau.core.kernels.pushing import push
from flambeau.core.support.tracebacks import trimmed
from flambeau.core.tape.transform import Capture, lifted
from flambeau.core.values.tensor import Tensor
from flambeau.core.values.upload import beside
from flambeau.func import recorded
from flambeau.func.reverse import chosen, jacrev, require_real
from flambeau.func.tree import LEAF, as_tensor, flatten, flatten_as, unflatten
from flambeau.func.vmap import vmap
from flambeau.random.drawing import Descent

__all__ = ["hessian", "jacfwd", "jvp", "linearize"]

_Function = Callable[..., Any]
_Argnums = int | tuple[int, ...]


@trimmed
def jvp(
    func: _Function, primals: Any, tangents: Any, *, strict: bool = False, has_aux: bool = False
) -> tuple[Any, ...]:
    """The value of a function, and the product of its Jacobian with vectors.

    Args:
        func: Returns a Tensor or a nested tuple, list or dict of Tensors; with ``has_aux`` a pair
            of this output and any other value.
        primals: The tuple of its arguments, Tensors or nested tuples, lists or dicts of them.
        tangents: For each Tensor in ``primals`` one of its shape, in the same structure.
        strict: Refuse outputs that do not depend on the primals.
        has_aux: See ``func``.

    Returns:
        ``(output, tangent)``, with ``has_aux`` ``(output, tangent, aux)``; the tangent has the
        structure of the output.

    Raises:
        RuntimeError: The tangents do not have the structure or shapes of the primals; the output
            holds objects other than Tensors, or fails the ``strict`` check.
        ValueError: The primals hold other objects than Tensors.

    >>> import flambeau
    >>> from flambeau.func import jvp
    >>> jvp(lambda x: x**2, (flambeau.tensor(3.0),), (flambeau.tensor(1.0),))
    (tensor(9.), tensor(6.))
    """
    if not isinstance(primals, tuple) or not isinstance(tangents, tuple):
        raise RuntimeError(
            "jvp() takes tuples of primals and of tangents, so that func(*primals) is a call; got "
            f"{type(primals).__name__} and {type(tangents).__name__}"
        )
    run = _Pushed(func, primals, tangents, has_aux, strict)
    results = recorded.run(run.compute, [*run.primals, *run.tangents])
    count = run.outputs
    output = unflatten(run.structure, results[:count])
    tangent = unflatten(run.structure, results[count : 2 * count])
    if not has_aux:
        return output, tangent
    remaining = iter(results[2 * count :])
    aux = [next(remaining) if each is None else each[0] for each in run.aux_leaves]
    return output, tangent, unflatten(run.aux_structure, aux)


class _Pushed:
    """One run of a function through `jax.jvp`.

    Attributes:
        primals: The Tensors in the primals.
        tangents: The Tensors in the tangents.
        structure: The structure of the output.
        outputs: The number of Tensors in the output.
        aux_structure: The structure of the auxiliary output.
        aux_leaves: For each leaf of the auxiliary output ``None`` if it is a Tensor, else a tuple
            that holds the leaf.
    """

    def __init__(
        self,
        func: _Function,
        primals: tuple[Any, ...],
        tangents: tuple[Any, ...],
        has_aux: bool,
        strict: bool,
    ) -> None:
        self.func = func
        self.has_aux = has_aux
        self.strict = strict
        leaves, self.arguments = flatten(primals)
        given = flatten_as(self.arguments, tangents)
        if given is None:
            raise RuntimeError(
                f"jvp(): the tangents have the structure {flatten(tangents)[1]}, the primals "
                f"{self.arguments}"
            )
        self.primals = [_checked_primal(as_tensor(each)) for each in leaves]
        self.tangents = [
            _checked_tangent(as_tensor(tangent), primal)
            for tangent, primal in zip(given, self.primals, strict=True)
        ]
        self.structure: Any = LEAF
        self.outputs = 0
        self.aux_structure: Any = LEAF
        self.aux_leaves: list[Any] = []

    def compute(self, arrays: Sequence[Any], capture: Capture) -> tuple[Any, ...]:
        """The arrays of outputs, tangents and auxiliary output; see `recorded.run`."""
        split = len(self.primals)
        function = functools.partial(self._call, capture, Descent())
        outputs, tangents, aux = push(function, tuple(arrays[:split]), tuple(arrays[split:]))
        if self.strict:
            self._check_dependence(arrays, capture)
        shown = [
            jnp.zeros_like(output) if tangent.dtype == jax.dtypes.float0 else tangent
            for output, tangent in zip(outputs, tangents, strict=True)
        ]
        return (*outputs, *shown, *aux)

    def _call(self, capture: Capture, descent: Descent, *arrays: Any) -> tuple[Any, Any]:
        with capture, descent:
            parts = [Tensor._wrap(each) for each in arrays]
            returned = self.func(*unflatten(self.arguments, parts))
            aux: list[Any] = []
            if self.has_aux:
                returned, aux = self._split(returned)
            outputs, self.structure = flatten(returned)
            outputs = [as_tensor(each) for each in outputs]
            for each in outputs:
                if not isinstance(each, Tensor):
                    raise RuntimeError(
                        "jvp() needs a function that returns Tensors only, got "
                        f"{type(each).__name__}"
                    )
            self.outputs = len(outputs)
            return (
                tuple([each._read() for each in lifted(outputs)]),
                tuple([each._read() for each in lifted(aux)]),
            )

    def _check_dependence(self, arrays: Sequence[Any], capture: Capture) -> None:
        split = len(self.primals)
        for place in range(self.outputs):
            descent = Descent()

            def tangent(*tangents: Any, place: int = place, descent: Descent = descent) -> Any:
                again = Capture(capture.given, capture.drawn)
                with descent:
                    function = functools.partial(self._call, again, Descent())
                    return push(function, tuple(arrays[:split]), tangents)[1][place]

            if not any(Kernel(tangent, "jvp", "JvpBackward0").used(tuple(arrays[split:]))):
                raise RuntimeError(
                    f"jvp() with strict=True: output {place} of the function is independent of "
                    "the primals"
                )

    def _split(self, returned: Any) -> tuple[Any, list[Any]]:
        if not isinstance(returned, tuple) or len(returned) != 2:
            raise RuntimeError(
                "jvp() with has_aux=True needs a function that returns a tuple (output, aux)"
            )
        leaves, self.aux_structure = flatten(returned[1])
        self.aux_leaves = [None if isinstance(each, Tensor) else (each,) for each in leaves]
        return returned[0], [each for each in leaves if isinstance(each, Tensor)]


def _checked_primal(primal: Any) -> Tensor:
    if not isinstance(primal, Tensor):
        raise ValueError(f"jvp() takes Tensors as primals, got {type(primal).__name__}")
    return primal


def _checked_tangent(tangent: Any, primal: Tensor) -> Tensor:
    if not isinstance(tangent, Tensor):
        raise ValueError(f"jvp() takes Tensors as tangents, got {type(tangent).__name__}")
    if tangent.shape != primal.shape:
        raise RuntimeError(
            f"jvp(): a tangent of shape {list(tangent.shape)} for a primal of shape "
            f"{list(primal.shape)}"
        )
    return tangent if tangent.dtype is primal.dtype else tangent.to(primal.dtype)


@trimmed
def linearize(func: _Function, *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """The value of a function, and its linear approximation there.

    Args:
        func: Returns a Tensor or a nested tuple, list or dict of Tensors.
        primals: Its arguments.

    Returns:
        ``(output, jvp_fn)``; ``jvp_fn`` takes one tangent per primal and returns the output's
        tangent.
    """
    output = func(*primals)

    def jvp_fn(*tangents: Any) -> Any:
        return jvp(func, primals, tangents)[1]

    return output, jvp_fn


def jacfwd(
    func: _Function, argnums: _Argnums = 0, has_aux: bool = False, *, randomness: str = "error"
) -> _Function:
    """A function that computes the Jacobian of ``func``, with one tangent per element of the input.

    Args:
        func: Returns a Tensor or a nested tuple, list or dict of Tensors; with ``has_aux`` a pair
            of this output and any other value.
        argnums: The index of the positional argument to differentiate with respect to, or a tuple
            of indices.
        has_aux: See ``func``.
        randomness: The treatment of random numbers in ``func``; see `vmap`.

    Returns:
        A function of the same arguments. Its result has the structure of the output, nested with
        that of the argument, with Tensors of shape ``[*output.shape, *input.shape]``; with
        ``has_aux`` it is a pair of this result and the auxiliary output.

    Raises:
        ValueError: The arguments hold objects other than Tensors.
        RuntimeError: The outputs hold other objects than Tensors, an argument does not exist, or
            inputs or outputs are complex.

    >>> import flambeau
    >>> from flambeau.func import jacfwd
    >>> jacfwd(lambda x: x**2)(flambeau.tensor([1.0, 3.0]))
    tensor([[2., 0.],
            [0., 6.]])
    """

    @trimmed
    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        places = chosen(argnums, args)
        primals, structure = flatten([args[each] for each in places])
        primals = [_checked_primal(as_tensor(each)) for each in primals]
        require_real("jacfwd", "input", primals)

        def along(*flat: Any) -> Any:
            given = list(args)
            for place, value in zip(places, unflatten(structure, list(flat)), strict=True):
                given[place] = value
            return func(*given, **kwargs)

        def push(*tangents: Tensor) -> tuple[Any, ...]:
            return jvp(along, tuple(primals), tangents, has_aux=has_aux)[1:]

        out_dims = (-1, None) if has_aux else (-1,)
        pushed = vmap(push, out_dims=out_dims, randomness=randomness)(*_joint_basis(primals))
        columns, out_structure = flatten(pushed[0])
        require_real("jacfwd", "output", columns)

        def in_structure(block: Tensor) -> Any:
            found = unflatten(structure, _blocks(block, primals))
            return tuple(found) if isinstance(argnums, tuple) else found[0]

        jacobian = unflatten(out_structure, [in_structure(each) for each in columns])
        return (jacobian, pushed[1]) if has_aux else jacobian

    return wrapped


def _joint_basis(primals: Sequence[Tensor]) -> list[Tensor]:
    """For each primal, stacked tangents that together form a basis of all primals."""
    sizes = [each.numel() for each in primals]
    rows = np.eye(sum(sizes))
    found, start = [], 0
    for primal, size in zip(primals, sizes, strict=True):
        part = rows[:, start : start + size].astype(primal.dtype.numpy)
        stacked = part.reshape((len(rows), *primal.shape))
        found.append(Tensor._wrap(beside(stacked, primal._read())))
        start += size
    return found


def _blocks(columns: Any, primals: Sequence[Tensor]) -> list[Tensor]:
    """The parts of a Jacobian for each primal; its last dimension covers all primals."""
    parts = columns.split([each.numel() for each in primals], -1)
    lead = tuple(columns.shape)[:-1]
    return [
        part.reshape((*lead, *primal.shape)) for part, primal in zip(parts, primals, strict=True)
    ]


def hessian(func: _Function, argnums: _Argnums = 0) -> _Function:
    """A function that computes the Hessian of ``func``: `jacfwd` of `jacrev`.

    Args:
        func: Returns a Tensor or a nested tuple, list or dict of Tensors.
        argnums: The index of the positional argument to differentiate with respect to, or a tuple
            of indices.

    >>> import flambeau
    >>> from flambeau.func import hessian
    >>> hessian(lambda x: (x**3).sum())(flambeau.tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    return jacfwd(jacrev(func, argnums), argnums)
