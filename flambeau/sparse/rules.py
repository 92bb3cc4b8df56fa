"""The rule of each operator for sparse tensors, in one table."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable
from typing import Any

from flambeau.core.support import naming
from flambeau.core.values.tensor import Tensor
from flambeau.core.values.trees import members_of
from flambeau.ops.common.checks import wrap_dim
from flambeau.ops.selections.calls import by_name
from flambeau.ops.shapes.shape import cat as concatenated
from flambeau.sparse import products, reductions, selecting
from flambeau.sparse.creation import (
    coalesce,
    sparse_coo_tensor,
    taken,
    to_dense,
)
from flambeau.sparse.tensor import SparseTensor

__all__: list[str] = []

#: Computes a function from the function, its positional and its keyword arguments.
Rule = Callable[..., Any]


def run(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Compute ``func`` by its rule.

    Raises:
        NotImplementedError: There is no rule.
    """
    rule = RULES.get(func.__name__)
    if rule is None:
        _first(args, kwargs).refuse(f"{func.__name__}()")
    return rule(func, *args, **kwargs)


def _first(args: tuple[Any, ...], kwargs: dict[str, Any]) -> SparseTensor:
    members = members_of((*args, *kwargs.values()))
    return next(each for each in members if isinstance(each, SparseTensor))


# Elementwise


def _on_values(func: Any, input: SparseTensor, *args: Any, **kwargs: Any) -> Any:
    """Operators that preserve sums: each value separately, even duplicates."""
    return input.with_values(func(input._values_, *args, **kwargs))


def _on_coalesced(func: Any, input: SparseTensor, *args: Any, **kwargs: Any) -> Any:
    """Operators that preserve zeros, but not sums."""
    return _on_values(func, coalesce(input), *args, **kwargs)


def _converted(func: Any, input: Any, *args: Any, **kwargs: Any) -> Any:
    if not isinstance(input, SparseTensor):
        return func(input, *(_dense_like(each) for each in args), **kwargs)
    values = func(input._values_, *(_dense_like(each) for each in args), **kwargs)
    if values is input._values_:
        return input
    return input.beside(values)


def _dense_like(value: Any) -> Any:
    return value._values_ if isinstance(value, SparseTensor) else value


def _is_number(value: Any) -> bool:
    if isinstance(value, SparseTensor):
        return False
    return not isinstance(value, Tensor) or not value.ndim


def _product(func: Any, input: Any, other: Any) -> Any:
    if not isinstance(input, SparseTensor):
        input, other = other, input
    if _is_number(other):
        return input.with_values(input._values_ * other)
    if isinstance(other, SparseTensor):
        return products.intersection(input, other)
    return input.with_values(input._values_ * taken(other.expand(input.shape), input))


def _quotient(func: Any, input: Any, other: Any, **kwargs: Any) -> Any:
    if not isinstance(input, SparseTensor) or not _is_number(other):
        raise RuntimeError(
            "Sparse division requires a scalar or zero-dim dense tensor divisor; multiply a sparse "
            "tensor by the reciprocal, or call to_dense()"
        )
    if kwargs.get("rounding_mode") is not None:
        input = coalesce(input)
    return input.with_values(func(input._values_, other, **kwargs))


def _sum(func: Any, input: Any, other: Any, *, alpha: Any = 1) -> Any:
    sign = -1 if func.__name__ in ("sub", "subtract") else 1
    factor = sign * alpha
    if not isinstance(other, SparseTensor):
        raise RuntimeError(
            "add(sparse, dense) is not supported. Use add(dense, sparse) instead, or to_dense()"
        )
    if not isinstance(input, SparseTensor):
        dense = to_dense(other)
        if not isinstance(input, Tensor) or input.shape != dense.shape:
            raise RuntimeError(
                f"add(): a dense tensor of shape {list(getattr(input, 'shape', ()))} and a sparse "
                f"one of {list(other.shape)} must have the same shape"
            )
        # The operators `+` and `+=` have no alpha.
        return func(input, dense) if alpha == 1 else func(input, dense, alpha=alpha)
    if input.shape != other.shape:
        raise RuntimeError(
            f"add: expected sizes of 'self' and 'other' to match, but {list(input.shape)} != "
            f"{list(other.shape)}"
        )
    if input._indices_ is other._indices_:
        return input.with_values(func(input._values_, other._values_, alpha=alpha))
    if input.sparse_dim() != other.sparse_dim():
        raise NotImplementedError(
            f"add(): sparse tensors with {input.sparse_dim()} and {other.sparse_dim()} sparse "
            "dimensions; call to_dense() on one of them"
        )
    added = other._values_ if factor == 1 else other._values_ * factor
    return SparseTensor.of(
        concatenated([input._indices_, other._indices_], 1),
        concatenated([input._values_, added]),
        input._size_,
    )


def _sum_in_place(func: Any, input: Any, other: Any, *, alpha: Any = 1) -> Any:
    if isinstance(input, SparseTensor):
        input.refuse(f"{func.__name__}()")
    return _sum(func, input, other, alpha=alpha)


# Dimensions


def _transposed(func: Any, input: SparseTensor, dim0: int = 0, dim1: int = 1) -> Any:
    one, other = (wrap_dim(each, input.ndim, func.__name__) for each in (dim0, dim1))
    order = list(range(input.ndim))
    order[one], order[other] = order[other], order[one]
    return _permuted(func, input, order)


def _permuted(func: Any, input: SparseTensor, *dims: Any) -> Any:
    given = dims[0] if len(dims) == 1 and isinstance(dims[0], list | tuple) else dims
    order = [wrap_dim(each, input.ndim, func.__name__) for each in given]
    count = input.sparse_dim()
    if sorted(order) != list(range(input.ndim)) or sorted(order[:count]) != list(range(count)):
        raise RuntimeError(
            f"{func.__name__}(): dimensions {order} must be an order of the {count} sparse "
            f"dimensions, and then of the {input.dense_dim()} dense ones"
        )
    indices = input._indices_ if order[:count] == list(range(count)) else (
        input._indices_[order[:count]]
    )  # fmt: skip
    values = input._values_
    if input.dense_dim():
        values = values.permute(0, *(each - count + 1 for each in order[count:]))
    size = tuple([input.shape[each] for each in order])
    return SparseTensor.of(indices, values, size, indices is input._indices_ and input._coalesced_)


def _reversed(func: Any, input: SparseTensor) -> Any:
    if input.ndim < 2:
        return input
    if input.ndim > 2:
        raise RuntimeError(f"t() takes a matrix, got shape {list(input.shape)}")
    return _permuted(func, input, 1, 0)


def _joined(func: Any, tensors: Any, dim: int = 0) -> Any:
    tensors = list(tensors)
    first = tensors[0]
    if not all(isinstance(each, SparseTensor) for each in tensors):
        _first((tensors,), {}).refuse("cat() of sparse and dense tensors")
    dim = wrap_dim(dim, first.ndim, "cat")
    rest = [[n for d, n in enumerate(each.shape) if d != dim] for each in tensors]
    count = first.sparse_dim()
    if any(each != rest[0] for each in rest) or any(t.sparse_dim() != count for t in tensors):
        raise RuntimeError(
            f"cat(): sizes of sparse tensors must match except in dimension {dim}, got "
            f"{[list(each.shape) for each in tensors]}"
        )
    if dim >= count:
        raise NotImplementedError("cat() of sparse tensors along a dense dimension")
    starts = itertools.accumulate((each.shape[dim] for each in tensors), operator.add, initial=0)
    moved = []
    for each, start in zip(tensors, starts, strict=False):
        offset = [[start if d == dim else 0] for d in range(count)]
        moved.append(each._indices_ + each._indices_.new_tensor(offset))
    size = [*first.shape]
    size[dim] = sum(each.shape[dim] for each in tensors)
    values = concatenated([each._values_ for each in tensors])
    return SparseTensor.of(concatenated(moved, 1), values, tuple(size))


# Others


def _matrix_product(func: Any, *args: Any, **kwargs: Any) -> Any:
    return products.multiplied(func.__name__, *by_name(func, args, kwargs).values())


def _added_product(func: Any, *args: Any, **kwargs: Any) -> Any:
    return products.addmm(*args, **kwargs)


def _summed(func: Any, input: SparseTensor, dim: Any = None, *, dtype: Any = None) -> Any:
    return reductions.sum(input, dim, dtype)


def _zeros(func: Any, input: SparseTensor, *, dtype: Any = None, **options: Any) -> Any:
    device = options.get("device") or input.device
    return sparse_coo_tensor(
        tuple(input.shape), dtype=dtype or input.dtype, device=device,
        requires_grad=options.get("requires_grad", False),
    )  # fmt: skip


def _zeroed(func: Any, input: SparseTensor) -> Any:
    input._values_.zero_()
    return input


def _array(func: Any, input: SparseTensor, *args: Any, **kwargs: Any) -> Any:
    raise TypeError(
        f"can't convert Sparse layout tensor to numpy: {func.__name__}(). Use "
        f"{naming.package}.Tensor.to_dense() first"
    )


def _as_it_is(func: Any, *args: Any, **kwargs: Any) -> Any:
    return func(*args, **kwargs)


def _answered(answer: Callable[[Any], Any]) -> Rule:
    return lambda func, input, *args, **kwargs: answer(input)


def _all(names: str, rule: Rule) -> dict[str, Rule]:
    return dict.fromkeys(names.split(), rule)


#: The rule of each function, by its name.
RULES: dict[str, Rule] = {
    **_all("clone neg negative positive contiguous", _on_values),
    **_all(
        "abs absolute asin arcsin asinh arcsinh atan arctan atanh arctanh ceil deg2rad erf erfinv "
        "expm1 fix floor frac log1p nan_to_num rad2deg relu round sgn sign sin sinh sqrt square "
        "tan tanh trunc pow",
        _on_coalesced,
    ),
    **_all("to type double float half bfloat16 long int short bool cpu cuda type_as", _converted),
    **_all("mul multiply", _product),
    **_all("div divide true_divide", _quotient),
    **_all("add sub subtract", _sum),
    **_all("add_ sub_ subtract_", _sum_in_place),
    **_all("transpose swapaxes swapdims", _transposed),
    "permute": _permuted,
    "select": lambda func, *args, **kwargs: selecting.select(*args, **kwargs),
    "index_select": lambda func, *args, **kwargs: selecting.index_select(*args, **kwargs),
    "__getitem__": lambda func, *args: selecting.getitem(*args),
    **_all("t _get_T _get_mT", _reversed),
    **_all("cat concat concatenate", _joined),
    **_all("mm matmul mv", _matrix_product),
    **_all("addmm", _added_product),
    "sum": _summed,
    **_all("zeros_like empty_like", _zeros),
    "zero_": _zeroed,
    **_all("numpy __array__ tolist", _array),
    "to_dense": lambda func, *args, **kwargs: to_dense(*args, **kwargs),
    **_all("to_sparse to_sparse_coo to_sparse_csr to_sparse_csc", _as_it_is),
    "coalesce": lambda func, input: coalesce(input),
    "is_floating_point": _answered(lambda input: input.dtype.is_floating_point),
    "is_complex": _answered(lambda input: input.dtype.is_complex),
    "is_signed": _answered(lambda input: input.dtype.is_signed),
    "is_inference": _answered(lambda input: input._values_.is_inference()),
    "numel": _answered(lambda input: input.numel()),
    "get_device": _answered(lambda input: input._values_.get_device()),
    "element_size": _answered(lambda input: input.dtype.itemsize),
    "is_same_size": lambda func, input, other: input.shape == other.shape,
}
