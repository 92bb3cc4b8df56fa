"""Derivatives of functions of tensors, by the tape: Jacobians, Hessians and their products.

Functions take one Tensor or a tuple of them. The results have the same structure: a tuple over the
outputs if there are several, and inside it a tuple over the inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from flambeau.autograd.backward import grad
from flambeau.autograd.directional import along_all
from flambeau.core.support.modes import enable_grad
from flambeau.core.values.tensor import Tensor
from flambeau.core.values.upload import beside
from flambeau.ops.shapes.shape import stack

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]

_Tensors = tuple[Any, ...]
_Function = Callable[..., Any]


def _is_tuple(value: Any, subject: str) -> tuple[bool, _Tensors]:
    """Whether ``value`` is a tuple, and its tensors as a tuple.

    Raises:
        TypeError: Something in it is not a Tensor.
    """
    several = isinstance(value, tuple)
    tensors = value if several else (value,)
    for place, each in enumerate(tensors):
        if not isinstance(each, Tensor):
            where = f"entry {place} of {subject}" if several else subject
            raise TypeError(
                f"{where} must be a Tensor{'' if several else ' or a tuple of them'}, "
                f"got {type(each).__name__}"
            )
    return several, tensors


def _returned(several: bool, tensors: Sequence[Any]) -> Any:
    return tuple(tensors) if several else tensors[0]


def _prepared(inputs: _Tensors, create_graph: bool) -> _Tensors:
    """The inputs as tensors to differentiate with respect to; the caller's are not changed."""
    if create_graph:
        return tuple([each.view_as(each) if each.requires_grad else _leaf(each) for each in inputs])
    return tuple([_leaf(each) for each in inputs])


def _leaf(tensor: Tensor) -> Tensor:
    return tensor.detach().requires_grad_()


def _finished(tensors: _Tensors, create_graph: bool) -> _Tensors:
    return tensors if create_graph else tuple([each.detach() for each in tensors])


def _gradients(
    outputs: _Tensors,
    inputs: _Tensors,
    cotangents: Any,
    create_graph: bool,
    strict: bool,
    subject: str,
    **options: Any,
) -> _Tensors:
    """Gradients with zeros where there is no dependence, or an error in ``strict`` mode."""
    known = [
        (output, cotangent)
        for output, cotangent in zip(outputs, cotangents or [None] * len(outputs), strict=True)
        if output.requires_grad
    ]
    if strict and len(known) < len(outputs):
        raise RuntimeError(f"{subject}: an output does not depend on the inputs (strict mode)")
    found: Sequence[Any] = [None] * len(inputs)
    if known:
        wanted, given = zip(*known, strict=True)
        found = grad(wanted, inputs, given, create_graph=create_graph, allow_unused=True, **options)
    if strict:
        for place, each in enumerate(found):
            if each is None:
                raise RuntimeError(
                    f"{subject}: the outputs do not depend on input {place} (strict mode)"
                )
    return tuple(found)


def _or_zeros(found: _Tensors, like: _Tensors, lead: tuple[int, ...] = ()) -> _Tensors:
    return tuple(
        [
            _zeros((*lead, *source.shape), source) if each is None else each
            for each, source in zip(found, like, strict=True)
        ]
    )


def _zeros(shape: tuple[int, ...], like: Tensor) -> Tensor:
    return _beside(np.zeros(shape, like.dtype.numpy), like)


def _beside(values: np.ndarray, tensor: Tensor) -> Tensor:
    return Tensor._wrap(beside(values, tensor._read()))


def _basis(output: Tensor) -> Tensor:
    """All tensors of the output's shape that are 1 at one element and 0 elsewhere."""
    size = output.numel()
    rows = np.eye(size, dtype=output.dtype.numpy).reshape(size, *output.shape)
    return _beside(rows, output)


def _rows(output: Tensor) -> Iterator[Tensor]:
    for place in range(output.numel()):
        row = np.zeros(output.numel(), output.dtype.numpy)
        row[place] = 1
        yield _beside(row.reshape(output.shape), output)


def jacobian(
    func: _Function,
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """The Jacobian of a function of tensors.

    Args:
        func: A function of the inputs that returns a Tensor or a tuple of them.
        inputs: A Tensor or a tuple of them.
        create_graph: Record the computation, so that the result can be differentiated.
        strict: Fail if an output does not depend on an input, instead of giving zeros.
        vectorize: Compute all rows together rather than one after another.
        strategy: ``"reverse-mode"`` computes rows; ``"forward-mode"``, which needs ``vectorize``,
            columns, by `forward_ad`.

    Returns:
        For each output and each input a Tensor of shape ``[*output.shape, *input.shape]``.

    Raises:
        TypeError: The inputs or outputs are no Tensors.
        RuntimeError: See ``strict``; or ``strict`` together with ``vectorize``.
        ValueError: An unknown ``strategy``.
        NotImplementedError: ``"forward-mode"`` without ``vectorize`` or with ``create_graph``.

    >>> import flambeau
    >>> flambeau.autograd.functional.jacobian(lambda x: x * x, flambeau.tensor([1.0, 3.0]))
    tensor([[2., 0.],
            [0., 6.]])
    """
    if strategy not in ("reverse-mode", "forward-mode"):
        raise ValueError(f"strategy must be 'reverse-mode' or 'forward-mode', got {strategy!r}")
    if strict and vectorize:
        raise RuntimeError("jacobian(): strict is not possible together with vectorize")
    if strategy == "forward-mode":
        if create_graph:
            raise NotImplementedError("jacobian(): 'forward-mode' records no graph")
        if not vectorize:
            raise NotImplementedError("jacobian(): 'forward-mode' needs vectorize=True")
    with enable_grad():
        several_in, given = _is_tuple(inputs, "the inputs of jacobian()")
        prepared = _prepared(given, create_graph)
        if strategy == "forward-mode":
            several_out, table = _by_columns(func, prepared)
        else:
            several_out, outputs = _is_tuple(func(*prepared), "what func gives jacobian()")
            table = [_by_rows(each, prepared, create_graph, strict, vectorize) for each in outputs]
        blocks = [_returned(several_in, _finished(row, create_graph)) for row in table]
        return _returned(several_out, blocks)


def _by_rows(
    output: Tensor, inputs: _Tensors, create_graph: bool, strict: bool, vectorize: bool
) -> _Tensors:
    """The blocks of one output, from one backward per element of it."""
    size = output.numel()
    options: dict[str, Any] = {
        "create_graph": create_graph, "strict": strict, "subject": "jacobian()",
    }  # fmt: skip
    if not size:
        found: _Tensors = _or_zeros((None,) * len(inputs), inputs, (0,))
    elif vectorize:
        batch = [_basis(output)]
        found = _gradients(
            (output,), inputs, batch, **options, retain_graph=True, is_grads_batched=True
        )
        found = _or_zeros(found, inputs, (size,))
    else:
        rows = [
            _or_zeros(_gradients((output,), inputs, [row], **options, retain_graph=True), inputs)
            for row in _rows(output)
        ]
        if strict and create_graph and not all(each.requires_grad for each in rows[0]):
            raise RuntimeError(
                "jacobian(): the Jacobian does not depend on an input (strict mode with "
                "create_graph)"
            )
        found = tuple([stack(column) for column in zip(*rows, strict=True)])
    return tuple(
        [
            block.reshape((*output.shape, *source.shape))
            for block, source in zip(found, inputs, strict=True)
        ]
    )


def _by_columns(func: _Function, inputs: _Tensors) -> tuple[bool, list[_Tensors]]:
    """The blocks of all outputs, from one forward derivative per element of the inputs.

    Returns:
        Whether ``func`` returns a tuple, and the blocks.
    """
    is_several: list[bool] = []

    def noted(*given: Tensor) -> _Tensors:
        several, outputs = _is_tuple(func(*given), "what func gives jacobian()")
        is_several[:] = [several]
        return outputs

    columns: list[list[Tensor]] = []
    for place, source in enumerate(inputs):
        directions = {place: _basis(source)._read()}
        found = along_all(noted, inputs, directions, lambda pairs: [each[1] for each in pairs])
        columns.append([_last_first(Tensor._wrap(each), tuple(source.shape)) for each in found])
    return is_several[0], [tuple(row) for row in zip(*columns, strict=True)]


def _last_first(columns: Any, shape: tuple[int, ...]) -> Tensor:
    return columns.movedim(0, -1).reshape((*columns.shape[1:], *shape))


class _pulled_back:
    """The gradients of some outputs as a recorded, linear function of their cotangents.

    Its derivatives with respect to the cotangents are directional derivatives.
    """

    def __init__(self, outputs: _Tensors, inputs: _Tensors, strict: bool = False) -> None:
        self.cotangents = tuple([_zeros(each.shape, each).requires_grad_() for each in outputs])
        found = _gradients(outputs, inputs, self.cotangents, True, strict, "jvp()")
        self.gradients = _or_zeros(found, inputs)


def hessian(
    func: _Function,
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """The Hessian of a scalar function of tensors.

    Args:
        func: A function of the inputs that returns a Tensor of one element.
        inputs: A Tensor or a tuple of them.
        create_graph: Record the computation, so that the result can be differentiated.
        strict: Fail if the output does not depend on an input, instead of giving zeros.
        vectorize: Compute all rows together rather than one after another.
        outer_jacobian_strategy: How the Jacobian of the gradient is computed; see `jacobian`.

    Returns:
        For each pair of inputs a Tensor of shape ``[*first.shape, *second.shape]``.

    Raises:
        RuntimeError: The output has several elements; see also `jacobian`.

    >>> import flambeau
    >>> flambeau.autograd.functional.hessian(lambda x: (x**3).sum(), flambeau.tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    several, given = _is_tuple(inputs, "the inputs of hessian()")

    def gradient(*parts: Tensor) -> _Tensors:
        return _gradient(func, parts, strict, "hessian()")[1]

    table = jacobian(gradient, given, create_graph, strict, vectorize, outer_jacobian_strategy)
    return table if several else table[0][0]


def _gradient(
    func: _Function, inputs: _Tensors, strict: bool, subject: str
) -> tuple[Tensor, _Tensors]:
    """A scalar function's value and its recorded gradient."""
    several, outputs = _is_tuple(func(*inputs), f"what func gives {subject}")
    if several:
        raise RuntimeError(f"{subject} is for functions that give one Tensor, not a tuple")
    if outputs[0].numel() != 1:
        raise RuntimeError(
            f"{subject} is for functions that give one element, "
            f"this one gives shape {list(outputs[0].shape)}"
        )
    found = _gradients(outputs, inputs, None, True, strict, subject)
    return outputs[0], _or_zeros(found, inputs)


def _checked_vectors(v: Any, like: _Tensors, several: bool, subject: str) -> _Tensors:
    """The vectors of a product, one per tensor in ``like`` and of its shape."""
    _, vectors = _is_tuple(v, f"the vectors of {subject}")
    if len(vectors) != len(like):
        raise RuntimeError(
            f"{subject} got {len(vectors)} vectors for {len(like)} tensors"
            f"{'' if several else ', which are no tuple'}"
        )
    for place, (vector, tensor) in enumerate(zip(vectors, like, strict=True)):
        if vector.shape != tensor.shape:
            raise RuntimeError(
                f"vector {place} of {subject} has shape {list(vector.shape)}, "
                f"but its tensor has shape {list(tensor.shape)}"
            )
    return vectors


def _vectors_or_one(v: Any, like: _Tensors, several: bool, subject: str) -> _Tensors | None:
    """The vectors of a product; ``None`` means 1 for a single tensor of one element."""
    if v is not None:
        return _checked_vectors(v, like, several, subject)
    if len(like) != 1 or like[0].numel() != 1:
        raise RuntimeError(
            f"{subject} needs vectors; they can be left out for one tensor of one element only"
        )
    return None


def vjp(
    func: _Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """A function's value, and the product of a vector with its Jacobian.

    Args:
        func: A function of the inputs that returns a Tensor or a tuple of them.
        inputs: A Tensor or a tuple of them.
        v: For each output a Tensor of its shape; may be left out for one output of one element.
        create_graph: Record the computation, so that the results can be differentiated.
        strict: Fail where an output does not depend on an input, instead of giving zeros.

    Returns:
        The outputs, and for each input a Tensor of its shape.

    Raises:
        RuntimeError: The vectors do not fit the outputs; see also ``strict``.
    """
    with enable_grad():
        several_in, given = _is_tuple(inputs, "the inputs of vjp()")
        prepared = _prepared(given, create_graph)
        several_out, outputs = _is_tuple(func(*prepared), "what func gives vjp()")
        vectors = _vectors_or_one(v, outputs, several_out, "vjp()")
        found = _gradients(outputs, prepared, vectors, create_graph, strict, "vjp()")
        product = _finished(_or_zeros(found, prepared), create_graph)
        value = _returned(several_out, _finished(outputs, create_graph))
        return value, _returned(several_in, product)


def jvp(
    func: _Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """A function's value, and the product of its Jacobian with a vector.

    Args:
        func: A function of the inputs that returns a Tensor or a tuple of them.
        inputs: A Tensor or a tuple of them.
        v: For each input a Tensor of its shape; may be left out for one input of one element.
        create_graph: Record the computation, so that the results can be differentiated.
        strict: Fail where an output does not depend on an input, instead of giving zeros.

    Returns:
        The outputs, and for each output a Tensor of its shape.

    Raises:
        RuntimeError: The vectors do not fit the inputs; see also ``strict``.
    """
    with enable_grad():
        several_in, given = _is_tuple(inputs, "the inputs of jvp()")
        vectors = _vectors_or_one(v, given, several_in, "jvp()")
        prepared = _prepared(given, create_graph)
        several_out, outputs = _is_tuple(func(*prepared), "what func gives jvp()")
        pull = _pulled_back(outputs, prepared, strict)
        found = _gradients(pull.gradients, pull.cotangents, vectors, create_graph, False, "jvp()")
        product = _finished(_or_zeros(found, outputs), create_graph)
        value = _returned(several_out, _finished(outputs, create_graph))
        return value, _returned(several_out, product)


def vhp(
    func: _Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """A scalar function's value, and the product of a vector with its Hessian.

    Args:
        func: A function of the inputs that returns a Tensor of one element.
        inputs: A Tensor or a tuple of them.
        v: For each input a Tensor of its shape; may be left out for one input of one element.
        create_graph: Record the computation, so that the results can be differentiated.
        strict: Fail where the output does not depend on an input, instead of giving zeros.

    Returns:
        The output, and for each input a Tensor of its shape.

    Raises:
        RuntimeError: The output has several elements, or the vectors do not fit the inputs.
    """
    with enable_grad():
        several, given = _is_tuple(inputs, "the inputs of vhp()")
        vectors = _vectors_or_one(v, given, several, "vhp()")
        prepared = _prepared(given, create_graph)
        output, gradient = _gradient(func, prepared, strict, "vhp()")
        found = _gradients(gradient, prepared, vectors, create_graph, strict, "vhp()")
        product = _finished(_or_zeros(found, prepared), create_graph)
        return _finished((output,), create_graph)[0], _returned(several, product)


def hvp(
    func: _Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """A scalar function's value, and the product of its Hessian with a vector.

    The Hessian of a twice continuously differentiable function is symmetric, so this equals `vhp`,
    which is faster; here the product is computed as written.

    Args:
        func: A function of the inputs that returns a Tensor of one element.
        inputs: A Tensor or a tuple of them.
        v: For each input a Tensor of its shape; may be left out for one input of one element.
        create_graph: Record the computation, so that the results can be differentiated.
        strict: Fail where the output does not depend on an input, instead of giving zeros.

    Returns:
        The output, and for each input a Tensor of its shape.

    Raises:
        RuntimeError: The output has several elements, or the vectors do not fit the inputs.
    """
    with enable_grad():
        several, given = _is_tuple(inputs, "the inputs of hvp()")
        vectors = _vectors_or_one(v, given, several, "hvp()")
        prepared = _prepared(given, create_graph)
        output, gradient = _gradient(func, prepared, strict, "hvp()")
        pull = _pulled_back(gradient, prepared, strict)
        found = _gradients(pull.gradients, pull.cotangents, vectors, create_graph, False, "hvp()")
        product = _finished(_or_zeros(found, prepared), create_graph)
        return _finished((output,), create_graph)[0], _returned(several, product)
