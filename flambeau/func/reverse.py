"""Reverse-mode transformations: `grad`, `vjp`, `jacrev`.

The function runs on the tape, on its own copies of the arguments, so no_grad, detach, hooks, custom
Functions, and control flow that depends on values work as usual.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from flambeau.autograd.backward import grad as tape_gradients
from flambeau.core.support.modes import enable_grad, inference_mode, modes
from flambeau.core.support.tracebacks import trimmed
from flambeau.core.tape import nodes as tape
from flambeau.core.tape.transform import Inside, lifted
from flambeau.core.values.dual import copy_tangent
from flambeau.core.values.tensor import Tensor
from flambeau.core.values.upload import beside
from flambeau.func.tree import Structure, as_tensor, flatten, flatten_as, unflatten
from flambeau.func.vmap import vmap

__all__ = ["grad", "grad_and_value", "jacrev", "value_and_grad", "vjp"]

_Function = Callable[..., Any]
_Argnums = int | tuple[int, ...]


def chosen(argnums: _Argnums, args: tuple[Any, ...]) -> tuple[int, ...]:
    """The indices of the arguments to differentiate with respect to.

    Raises:
        RuntimeError: There is no such argument, or one is named twice; or ``argnums`` is neither a
            number nor a tuple of numbers.
    """
    numbers = argnums if isinstance(argnums, tuple) else (argnums,)
    if not numbers:
        raise RuntimeError("argnums must name at least one argument, got ()")
    for each in numbers:
        if not isinstance(each, int):
            raise RuntimeError(f"argnums must be an int or a tuple of them, got {argnums!r}")
        if not -len(args) <= each < len(args):
            raise RuntimeError(
                f"argnums has {each}, but there are only {len(args)} positional arguments"
            )
    places = tuple(each % len(args) for each in numbers)
    if len(set(places)) < len(places):
        raise RuntimeError(f"argnums must name each argument once, got {argnums}")
    return places


def require_real(name: str, kind: str, tensors: Sequence[Tensor]) -> None:
    """Fail on complex numbers, whose derivatives form no Jacobian.

    Raises:
        RuntimeError: There are complex numbers.
    """
    for place, each in enumerate(tensors):
        if each.is_complex():
            raise RuntimeError(
                f"{name}() is defined for real {kind}s, but {kind} {place} is {each.dtype}; use "
                "vjp() or jvp(), or view_as_real() on both sides"
            )


class Differentiated:
    """One run of a function on its own copies of some arguments, recorded.

    Args:
        name: The transformation, for messages.
        func: The function.
        args: Its arguments.
        kwargs: Its keyword arguments.
        argnums: The positional arguments to differentiate with respect to.

    Attributes:
        inputs: The copies, flat.
        returned: The function's result.

    Raises:
        ValueError: One of these arguments holds objects other than Tensors.
        RuntimeError: One of them is neither floating point nor complex.
    """

    structure: Any

    def __init__(
        self,
        name: str,
        func: _Function,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        argnums: tuple[int, ...],
    ) -> None:
        self.name = name
        self.recording: bool = modes.grad_enabled
        self.first: int = tape.sequence_now()
        leaves, self.structure = flatten([args[each] for each in argnums])
        self.inputs: list[Tensor] = [self._copy(each) for each in map(as_tensor, leaves)]
        given = list(args)
        copies = unflatten(self.structure, self.inputs)
        for place, copy in zip(argnums, copies, strict=True):
            given[place] = copy
        # Inference mode around the transformation would hide the recording.
        with Inside(), inference_mode(False):
            self.returned: Any = func(*given, **kwargs)

    def _copy(self, source: Any) -> Tensor:
        if not isinstance(source, Tensor):
            raise ValueError(
                f"{self.name}() differentiates by Tensors, got {type(source).__name__}; choose the "
                "arguments with argnums"
            )
        if not (source.is_floating_point() or source.is_complex()):
            raise RuntimeError(
                f"{self.name}() can differentiate by floating point and complex tensors only, got "
                f"{source.dtype}"
            )
        (source,) = lifted((source,))
        if self.recording and source.requires_grad:
            with enable_grad():
                (copy,), _ = tape.identity_node((source,))
            return copy
        # In a Cell of its own: every running transformation must treat the copy as made inside it.
        copy = Tensor._wrap(source._read())
        copy._requires_grad = True
        copy_tangent(source, copy)
        return copy

    def split_aux(self) -> tuple[Any, Any]:
        """The value and the auxiliary output.

        Raises:
            RuntimeError: The function did not return a pair.
        """
        if not isinstance(self.returned, tuple) or len(self.returned) != 2:
            raise RuntimeError(
                f"{self.name}() with has_aux=True needs a function that returns a tuple "
                "(output, aux)"
            )
        return self.returned

    def leads_outside(self, outputs: Sequence[Tensor]) -> bool:
        """Whether outputs depend on other tensors that require grad than the copies."""
        if not self.recording:
            return False
        own = {id(each) for each in self.inputs}
        stack = [each.grad_fn for each in outputs if each.grad_fn is not None]
        seen = set(stack)
        while stack:
            node = stack.pop()
            if node.accumulates:
                if id(node.variable) not in own:
                    return True
                continue
            if node.sequence < self.first:
                return True
            for edge in node.edges:
                if edge is not None and edge[0] not in seen:
                    seen.add(edge[0])
                    stack.append(edge[0])
        return False

    def gradients(
        self, outputs: Sequence[Tensor], cotangents: Any, create_graph: bool
    ) -> list[Tensor]:
        """The gradients with respect to the copies, zeros where there is no dependence."""
        pairs = list(zip(outputs, cotangents or [None] * len(outputs), strict=True))
        taking = [pair for pair in pairs if pair[0].requires_grad]
        if not taking:
            return [_zeros(each) for each in self.inputs]
        known, given = zip(*taking, strict=True)
        with inference_mode(False):
            found = tape_gradients(
                known, self.inputs, given, retain_graph=True, create_graph=create_graph,
                materialize_grads=True,
            )  # fmt: skip
        return list(found)

    def outward(self, value: Any, recorded: bool) -> Any:
        """The function's results for the caller: without the copies' history."""
        if recorded:
            return value
        leaves, structure = flatten(value)
        return unflatten(
            structure, [e._alias(type(e)) if isinstance(e, Tensor) else e for e in leaves]
        )


def _zeros(like: Tensor) -> Tensor:
    zeros = np.zeros(tuple(like.shape), like.dtype.numpy)
    return Tensor._wrap(beside(zeros, like._read()))


def grad_and_value(
    func: _Function, argnums: _Argnums = 0, has_aux: bool = False
) -> Callable[..., tuple[Any, Any]]:
    """A function that computes the gradient of ``func``, and its value.

    Args:
        func: Returns a 0-d Tensor; with ``has_aux`` a pair of it and any other value.
        argnums: The index of the positional argument to differentiate with respect to, or a tuple
            of indices. An argument may be a nested tuple, list or dict of Tensors.
        has_aux: See ``func``.

    Returns:
        A function of the same arguments that gives ``(gradient, value)``, or with ``has_aux``
        ``(gradient, (value, aux))``. The gradient has the structure of the argument; for a tuple of
        indices it is a tuple. All can be differentiated further.

    Raises:
        RuntimeError: ``func`` returns another value, or an argument does not exist.
        ValueError: An argument to differentiate with respect to holds objects other than Tensors.
    """

    @trimmed
    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
        call = Differentiated("grad", func, args, kwargs, chosen(argnums, args))
        value, aux = call.split_aux() if has_aux else (call.returned, None)
        if not isinstance(value, Tensor):
            raise RuntimeError(
                f"grad() needs a function that returns a Tensor, got {type(value).__name__}"
            )
        if value.ndim:
            raise RuntimeError(
                "grad() needs a function that returns a scalar Tensor, got one of shape "
                f"{list(value.shape)}; vjp() and jacrev() take others"
            )
        outside = call.leads_outside((value,))
        found = unflatten(call.structure, call.gradients((value,), None, outside))
        gradient = tuple(found) if isinstance(argnums, tuple) else found[0]
        value, aux = call.outward((value, aux), outside)
        return gradient, (value, aux) if has_aux else value

    return wrapped


def value_and_grad(
    func: _Function, argnums: _Argnums = 0, has_aux: bool = False
) -> Callable[..., tuple[Any, Any]]:
    """`grad_and_value` in JAX's order: a function that gives ``(value, gradient)``.

    >>> import flambeau
    >>> from flambeau.func import value_and_grad
    >>> value_and_grad(lambda x: x**2)(flambeau.tensor(3.0))
    (tensor(9.), tensor(6.))
    """
    both = grad_and_value(func, argnums, has_aux)

    @trimmed
    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
        gradient, value = both(*args, **kwargs)
        return value, gradient

    return wrapped


def grad(func: _Function, argnums: _Argnums = 0, has_aux: bool = False) -> _Function:
    """A function that computes the gradient of ``func``.

    Args:
        func: Returns a 0-d Tensor; with ``has_aux`` a pair of it and any other value.
        argnums: The index of the positional argument to differentiate with respect to, or a tuple
            of indices. An argument may be a nested tuple, list or dict of Tensors.
        has_aux: See ``func``.

    Returns:
        A function of the same arguments that returns the gradient, or ``(gradient, aux)``.

    Raises:
        RuntimeError: ``func`` returns another value, or an argument does not exist.
        ValueError: An argument to differentiate with respect to holds objects other than Tensors.

    >>> import flambeau
    >>> from flambeau.func import grad
    >>> grad(grad(lambda x: x**3))(flambeau.tensor(2.0))
    tensor(12.)
    """
    both = grad_and_value(func, argnums, has_aux)

    @trimmed
    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        gradient, value = both(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return wrapped


@trimmed
def vjp(func: _Function, *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """The value of a function, and the product of vectors with its Jacobian.

    Args:
        func: Returns a Tensor or a nested tuple, list or dict of Tensors; with ``has_aux`` a pair
            of this output and any other value.
        primals: Its arguments, Tensors or nested tuples, lists or dicts of them.
        has_aux: See ``func``.

    Returns:
        ``(output, vjp_fn)``, with ``has_aux`` ``(output, vjp_fn, aux)``. ``vjp_fn`` takes
        cotangents in the structure of the output, as separate arguments if the output is a tuple,
        and returns a tuple with the gradient of each primal.

    Raises:
        RuntimeError: The output holds objects other than Tensors, or the cotangents do not have its
            structure or shapes.
        ValueError: The primals hold other objects than Tensors.

    >>> import flambeau
    >>> from flambeau.func import vjp
    >>> output, pull = vjp(lambda x: x**2, flambeau.tensor([1.0, 3.0]))
    >>> pull(flambeau.ones(2))
    (tensor([2., 6.]),)
    """
    call = Differentiated("vjp", func, primals, {}, tuple(range(len(primals))))
    returned, aux = call.split_aux() if has_aux else (call.returned, None)
    outputs, structure = _flat_outputs("vjp", returned)
    outside = call.leads_outside(outputs)

    def vjp_fn(*cotangents: Any) -> tuple[Any, ...]:
        given = _checked_cotangents(cotangents, outputs, structure)
        create = modes.grad_enabled and (outside or any(each.requires_grad for each in given))
        found = call.gradients(outputs, given, create)
        return tuple(unflatten(call.structure, found))

    result, aux = call.outward((returned, aux), outside)
    return (result, vjp_fn, aux) if has_aux else (result, vjp_fn)


def _flat_outputs(name: str, returned: Any) -> tuple[list[Tensor], Structure]:
    outputs, structure = flatten(returned)
    for each in outputs:
        if not isinstance(each, Tensor):
            raise RuntimeError(
                f"{name}() needs a function that returns Tensors only, got {type(each).__name__}"
            )
    return outputs, structure


def _checked_cotangents(
    cotangents: tuple[Any, ...], outputs: list[Tensor], structure: Structure
) -> list[Tensor]:
    # The cotangents of a tuple of outputs may be separate arguments.
    value: Any = cotangents[0] if len(cotangents) == 1 else cotangents
    given = flatten_as(structure, value)
    if given is None:
        raise RuntimeError(
            f"the cotangents have the structure {flatten(value)[1]}, but the output of the "
            f"function has {structure}"
        )
    given = [as_tensor(each) for each in given]
    for cotangent, output in zip(given, outputs, strict=True):
        if not isinstance(cotangent, Tensor) or cotangent.shape != output.shape:
            facts = list(cotangent.shape) if isinstance(cotangent, Tensor) else type(cotangent)
            raise RuntimeError(
                f"a cotangent of shape {facts} for an output of shape {list(output.shape)}"
            )
    return given


def jacrev(
    func: _Function, argnums: _Argnums = 0, *, has_aux: bool = False, chunk_size: int | None = None
) -> _Function:
    """A function that computes the Jacobian of ``func``, with one backward per output element.

    Args:
        func: Returns a Tensor or a nested tuple, list or dict of Tensors; with ``has_aux`` a pair
            of this output and any other value.
        argnums: The index of the positional argument to differentiate with respect to, or a tuple
            of indices.
        has_aux: See ``func``.
        chunk_size: The number of rows to compute together; by default all.

    Returns:
        A function of the same arguments. Its result has the structure of the output, nested with
        that of the argument, with Tensors of shape ``[*output.shape, *input.shape]``; with
        ``has_aux`` it is a pair of this result and the auxiliary output.

    Raises:
        ValueError: ``chunk_size`` is not positive, or the arguments hold objects other than
            Tensors.
        RuntimeError: The outputs hold other objects than Tensors, an argument does not exist, or
            inputs or outputs are complex.

    >>> import flambeau
    >>> from flambeau.func import jacrev
    >>> jacrev(lambda x: x**2)(flambeau.tensor([1.0, 3.0]))
    tensor([[2., 0.],
            [0., 6.]])
    """
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError(f"jacrev(): chunk_size must be positive, got {chunk_size}")

    @trimmed
    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        places = chosen(argnums, args)
        call = Differentiated("jacrev", func, args, kwargs, places)
        returned, aux = call.split_aux() if has_aux else (call.returned, None)
        outputs, structure = _flat_outputs("jacrev", returned)
        require_real("jacrev", "input", call.inputs)
        require_real("jacrev", "output", outputs)
        outside = call.leads_outside(outputs)

        def rows(output: Tensor) -> list[Tensor]:
            def row(cotangent: Tensor) -> tuple[Tensor, ...]:
                return tuple(
                    call.gradients((output,), (cotangent,), modes.grad_enabled and outside)
                )

            # All code that draws random numbers has already run.
            mapped = vmap(row, randomness="same", chunk_size=chunk_size)
            return [
                block.reshape((*output.shape, *source.shape))
                for block, source in zip(mapped(basis(output)), call.inputs, strict=True)
            ]

        def in_structure(blocks: list[Tensor]) -> Any:
            found = unflatten(call.structure, blocks)
            return tuple(found) if isinstance(argnums, tuple) else found[0]

        jacobian = unflatten(structure, [in_structure(rows(each)) for each in outputs])
        return (jacobian, call.outward(aux, outside)) if has_aux else jacobian

    return wrapped


def basis(tensor: Tensor) -> Tensor:
    """All tensors of this shape and dtype that are 1 at one element and 0 elsewhere, stacked."""
    size = tensor.numel()
    rows = np.eye(size, dtype=tensor.dtype.numpy).reshape((size, *tensor.shape))
    return Tensor._wrap(beside(rows, tensor._read()))
