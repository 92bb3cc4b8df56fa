"""Tensors made from sizes and from data, against PyTorch's."""

from typing import Any

import numpy as np
import pytest

from tests.conformance.expression import check

FLOATS = ["float16", "bfloat16", "float32", "float64"]
ALL = ["bool", "uint8", "int8", "int16", "int32", "int64", *FLOATS, "complex64", "complex128"]

SIZES = {
    "integers": lambda lib: lib.zeros(2, 3),
    "one integer": lambda lib: lib.ones(4),
    "tuple": lambda lib: lib.ones((2, 3)),
    "list": lambda lib: lib.zeros([3]),
    "scalar": lambda lib: lib.zeros(()),
    "no elements": lambda lib: lib.ones(2, 0),
    "keyword": lambda lib: lib.zeros(size=(2, 3)),
    "Size": lambda lib: lib.ones(lib.zeros(2, 3).shape),
    "numpy integers": lambda lib: lib.zeros(np.int64(2), np.int32(3)),
    "tensor": lambda lib: lib.zeros(lib.tensor(3)),
    "none": lambda lib: lib.zeros(),
    "negative": lambda lib: lib.zeros(2, -1),
    "float": lambda lib: lib.zeros(2.5),
    "bool": lambda lib: lib.ones(True),
    "two tuples": lambda lib: lib.zeros((2,), (3,)),
    "empty has the size": lambda lib: tuple(lib.empty(2, 3).shape),
    "meta": lambda lib: lib.ones(2, 3, device="meta"),
}

OPTIONS = {
    "requires grad": lambda lib: lib.zeros(2, requires_grad=True),
    "integers require grad": lambda lib: lib.zeros(2, dtype=lib.int32, requires_grad=True),
    "dtype by name": lambda lib: lib.zeros(2, dtype="float32"),
    "device": lambda lib: lib.ones(2, device="cpu"),
    "out": lambda lib: lib.ones(2, out=lib.empty(2)),
    "out gives the dtype": lambda lib: lib.ones(2, out=lib.empty(2, dtype=lib.int64)),
    "out of no elements": lambda lib: lib.ones(2, 2, out=lib.empty(0)),
    "out of another dtype": lambda lib: lib.ones(
        2, dtype=lib.float32, out=lib.empty(2, dtype=lib.int64)
    ),
    "out that requires grad": lambda lib: lib.zeros(2, out=lib.ones(2, requires_grad=True)),
    "arange to out": lambda lib: lib.arange(3, out=lib.empty(3)),
    "eye to out": lambda lib: lib.eye(2, out=lib.empty(2, 2)),
    "default dtype": lambda lib: _with_default(lib, lambda: (lib.ones(2), lib.tensor(1.5))),
    "device context": lambda lib: _on_meta(lib, lambda: (lib.ones(2), lib.tensor([1, 2]))),
    "device context takes tensors": lambda lib: _taken_to_meta(lib, lib.ones(2)),
}


def _taken_to_meta(lib: Any, tensor: Any) -> Any:
    return _on_meta(
        lib, lambda: (lib.as_tensor(tensor), lib.asarray(tensor), lib.ones_like(tensor))
    )


def _with_default(lib: Any, compute: Any) -> Any:
    lib.set_default_dtype(lib.float64)
    try:
        return compute()
    finally:
        lib.set_default_dtype(lib.float32)


def _on_meta(lib: Any, compute: Any) -> Any:
    with lib.device("meta"):
        return compute()


FULL = {
    "float": lambda lib: lib.full((2,), 3.5),
    "integer": lambda lib: lib.full((2,), 3),
    "bool": lambda lib: lib.full((2,), True),
    "complex": lambda lib: lib.full((2,), 1 + 2j),
    "tensor": lambda lib: lib.full((2,), lib.tensor(3.5)),
    "infinite": lambda lib: lib.full((2,), float("inf"), dtype=lib.float16),
    "not a number": lambda lib: lib.full((2,), float("nan")),
    "float to integer": lambda lib: lib.full((2,), 3.7, dtype=lib.int32),
    "number to bool": lambda lib: lib.full((2,), 3, dtype=lib.bool),
    "complex to real": lambda lib: lib.full((2,), 1j, dtype=lib.float32),
    "real complex to real": lambda lib: lib.full((2,), 2 + 0j, dtype=lib.float32),
    "too large": lambda lib: lib.full((2,), 300, dtype=lib.uint8),
    "too large a float": lambda lib: lib.full((2,), 1e39, dtype=lib.float32),
    "negative to unsigned": lambda lib: lib.full((2,), -1, dtype=lib.uint8),
    "too negative to unsigned": lambda lib: lib.full((2,), -256, dtype=lib.uint8),
    "lowest": lambda lib: lib.full((2,), -128, dtype=lib.int8),
    "infinite integer": lambda lib: lib.full((2,), float("inf"), dtype=lib.int32),
    "size is no sequence": lambda lib: lib.full(2, 1.0),
    "tensor with dimensions": lambda lib: lib.full((2,), lib.tensor([3.5, 1.0])),
    "string": lambda lib: lib.full((2,), "a"),
}

RANGES = {
    "end": lambda lib: lib.arange(5),
    "start, end": lambda lib: lib.arange(1, 4),
    "start, end, step": lambda lib: lib.arange(1, 8, 3),
    "down": lambda lib: lib.arange(5, 0, -2),
    "floats": lambda lib: lib.arange(0.0, 1.0, 0.1),
    "float step": lambda lib: lib.arange(1, 2, 0.3),
    "bool": lambda lib: lib.arange(True),
    "named": lambda lib: lib.arange(start=1, end=6, step=2),
    "end named": lambda lib: lib.arange(1, end=3),
    "empty": lambda lib: lib.arange(2, 2),
    "tensors": lambda lib: lib.arange(lib.tensor(1), lib.tensor(4.0, dtype=lib.float64)),
    "floats to int64": lambda lib: lib.arange(0.5, 4.6, 1.5, dtype=lib.int64),
    "floats to int32": lambda lib: lib.arange(0.5, 4.6, 1.5, dtype=lib.int32),
    "fraction to int32": lambda lib: lib.arange(0, 1, 0.1, dtype=lib.int32),
    "meta": lambda lib: lib.arange(1, 8, 3, device="meta"),
    "no end": lambda lib: lib.arange(),
    "zero step": lambda lib: lib.arange(0, 3, 0),
    "wrong way": lambda lib: lib.arange(3, 0),
    "infinite": lambda lib: lib.arange(0, float("inf")),
    "to bool": lambda lib: lib.arange(2, dtype=lib.bool),
    "to complex": lambda lib: lib.arange(2, dtype=lib.complex64),
    "string": lambda lib: lib.arange("a"),
    "linspace of none": lambda lib: lib.linspace(0, 1, 0),
    "linspace of one": lambda lib: lib.linspace(3, 5, 1),
    "linspace down": lambda lib: lib.linspace(5, -1, 4),
    "linspace of tensors": lambda lib: lib.linspace(lib.tensor(0.0), 1, 3),
    "linspace complex": lambda lib: lib.linspace(0, 1j, 3),
    "linspace of integers": lambda lib: lib.linspace(0, 10, 4, dtype=lib.int64),
    "linspace steps named": lambda lib: lib.linspace(0, 1, steps=3),
    "linspace negative": lambda lib: lib.linspace(0, 1, -1),
    "linspace float steps": lambda lib: lib.linspace(0, 1, 3.0),
    "linspace of bool": lambda lib: lib.linspace(0, 3, 4, dtype=lib.bool),
    "linspace of a vector": lambda lib: lib.linspace(lib.tensor([0.0]), 1, 3),
    "linspace without steps": lambda lib: lib.linspace(0, 1),
    "logspace of integers": lambda lib: lib.logspace(0, 3, 4, base=2, dtype=lib.int64),
}

MATRICES = {
    "square": lambda lib: lib.eye(3),
    "wide": lambda lib: lib.eye(2, 3),
    "bool": lambda lib: lib.eye(3, 2, dtype=lib.bool),
    "meta": lambda lib: lib.eye(3, device="meta"),
    "negative": lambda lib: lib.eye(-1),
    "negative columns": lambda lib: lib.eye(2, -1),
    "float": lambda lib: lib.eye(2.0),
    "lower": lambda lib: lib.tril_indices(3, 4),
    "lower from 1": lambda lib: lib.tril_indices(3, 4, 1),
    "lower of int32": lambda lib: lib.tril_indices(4, 3, offset=-1, dtype=lib.int32),
    "upper": lambda lib: lib.triu_indices(3, 4),
    "upper from -1": lambda lib: lib.triu_indices(4, 3, -1),
    "lower of nothing": lambda lib: lib.tril_indices(0, 3),
    "negative rows": lambda lib: lib.tril_indices(-1, 3),
    "of floats": lambda lib: lib.triu_indices(2, 3, dtype=lib.float32),
}

LIKE = {
    "ones_like": lambda lib: lib.ones_like(lib.zeros(2, dtype=lib.int32)),
    "ones_like of dtype": lambda lib: lib.ones_like(lib.zeros(2), dtype=lib.float64),
    "zeros_like of a leaf": lambda lib: lib.zeros_like(lib.ones(2, requires_grad=True)),
    "zeros_like requires grad": lambda lib: lib.zeros_like(lib.ones(2), requires_grad=True),
    "zeros_like on meta": lambda lib: lib.zeros_like(lib.ones(2, 3, device="meta")),
    "zeros_like to meta": lambda lib: lib.zeros_like(lib.ones(2), device="meta"),
    "full_like cuts": lambda lib: lib.full_like(lib.zeros(2, dtype=lib.int64), 2.5),
    "full_like of meta": lambda lib: lib.full_like(lib.zeros(2, device="meta"), 2.5),
    "full_like overflows": lambda lib: lib.full_like(lib.zeros(2, dtype=lib.uint8), 256),
    "empty_like": lambda lib: tuple(lib.empty_like(lib.zeros(2, 3)).shape),
    "of a list": lambda lib: lib.ones_like([1]),
    "new_zeros": lambda lib: lib.ones(2, dtype=lib.float64).new_zeros(2, 3),
    "new_zeros of dtype": lambda lib: lib.ones(2).new_zeros((2,), dtype=lib.int32),
    "new_zeros by name": lambda lib: lib.ones(2).new_zeros(size=(1,)),
    "new_zeros of nothing": lambda lib: lib.ones(2).new_zeros(),
    "new_ones": lambda lib: lib.zeros(2, dtype=lib.int16).new_ones((3,)),
    "new_ones requires grad": lambda lib: lib.zeros(2).new_ones(3, requires_grad=True),
    "new_ones of meta": lambda lib: lib.zeros(2, device="meta").new_ones(3),
    "new_full": lambda lib: lib.zeros(2).new_full((2,), True),
    "new_full of integers": lambda lib: lib.zeros(2, dtype=lib.int64).new_full((2,), 2.9),
    "new_empty": lambda lib: tuple(lib.zeros(2).new_empty(2, 3).shape),
    "new_tensor": lambda lib: lib.zeros(2, dtype=lib.float64).new_tensor([1, 2]),
    "new_tensor of dtype": lambda lib: lib.zeros(2).new_tensor([1, 2], dtype=lib.int8),
    "new_tensor of a tensor": lambda lib: lib.zeros(2).new_tensor(lib.tensor([1, 2])),
}

DATA = {
    "integer": lambda lib: lib.tensor(3),
    "float": lambda lib: lib.tensor(2.5),
    "bool": lambda lib: lib.tensor(True),
    "complex": lambda lib: lib.tensor(1 + 2j),
    "nested": lambda lib: lib.tensor([[1, 2], [3, 4]]),
    "mixed": lambda lib: lib.tensor([1, 2.5]),
    "tuple": lambda lib: lib.tensor((1.0, 2.0)),
    "range": lambda lib: lib.tensor(range(3)),
    "empty": lambda lib: lib.tensor([]),
    "empty rows": lambda lib: lib.tensor([[], []]),
    "array": lambda lib: lib.tensor(np.arange(6.0).reshape(2, 3)),
    "float16 array": lambda lib: lib.tensor(np.ones(2, np.float16)),
    "strided array": lambda lib: lib.tensor(np.arange(6)[::2]),
    "reversed array": lambda lib: lib.tensor(np.arange(6).reshape(2, 3).T),
    "scalars": lambda lib: lib.tensor([np.float64(1.5), np.float64(2.5)]),
    "tensors": lambda lib: lib.tensor([lib.tensor(1), lib.tensor(2)]),
    "tensor": lambda lib: lib.tensor(lib.ones(2, dtype=lib.float64)),
    "dtype": lambda lib: lib.tensor([1.7, 2.2], dtype=lib.int32),
    "requires grad": lambda lib: lib.tensor([1.0], requires_grad=True),
    "integers require grad": lambda lib: lib.tensor([1, 2], requires_grad=True),
    "meta": lambda lib: lib.tensor([1.0, 2.0], device="meta"),
    "ragged": lambda lib: lib.tensor([[1], [2, 3]]),
    "string": lambda lib: lib.tensor("a"),
    "strings": lambda lib: lib.tensor([1, "a"]),
    "overflow": lambda lib: lib.tensor(300, dtype=lib.uint8),
    "LongTensor of floats": lambda lib: lib.LongTensor([1.5, -2.0]),
    "FloatTensor of a sequence": lambda lib: lib.FloatTensor((2, 2)),
    "FloatTensor of sizes": lambda lib: tuple(lib.FloatTensor(2, 3).shape),
    "FloatTensor of a size": lambda lib: tuple(lib.FloatTensor(lib.Size([2, 2])).shape),
    "FloatTensor of nothing": lambda lib: lib.FloatTensor(),
    "FloatTensor of integers": lambda lib: lib.FloatTensor(lib.tensor([1])),
    "FloatTensor of an array": lambda lib: lib.FloatTensor(np.arange(2)),
    "FloatTensor of a number": lambda lib: lib.FloatTensor(2.5),
    "Tensor of a number": lambda lib: lib.Tensor(2.5),
    "Tensor of integers": lambda lib: lib.Tensor(lib.tensor([1])),
    "BoolTensor": lambda lib: lib.BoolTensor([True, 0]),
    "instances by dtype": lambda lib: (
        isinstance(lib.ones(1), lib.FloatTensor),
        isinstance(lib.ones(1), lib.IntTensor),
    ),
    "more than 63 bits": lambda lib: lib.tensor(2**63),
    "more than 64 bits": lambda lib: lib.tensor(2**64),
    "a list with more than 64 bits": lambda lib: lib.tensor([1, 2**64]),
    "more than 64 bits as float": lambda lib: lib.tensor(2**64, dtype=lib.float64),
    "more than 64 bits as int8": lambda lib: lib.tensor(2**64, dtype=lib.int8),
    "more than 63 bits as int32": lambda lib: lib.tensor(2**63, dtype=lib.int32),
    "as_tensor of a list": lambda lib: lib.as_tensor([1, 2]),
    "as_tensor is the same": lambda lib: _is_same(lib, lib.as_tensor),
    "as_tensor keeps the flag": lambda lib: lib.as_tensor(lib.ones(2, requires_grad=True)),
    "as_tensor converts": lambda lib: lib.as_tensor(lib.ones(2), dtype=lib.int32),
    "as_tensor keeps history": lambda lib: lib.as_tensor(
        lib.ones(2, requires_grad=True), dtype=lib.float64
    ),
    "as_tensor of a number": lambda lib: lib.as_tensor(3.7, dtype=lib.int32),
    "as_tensor of an array": lambda lib: lib.as_tensor(np.arange(3, dtype=np.int16)),
    "asarray of a number": lambda lib: lib.asarray(3),
    "asarray of a list": lambda lib: lib.asarray([1.0, 2.0]),
    "asarray of an array": lambda lib: lib.asarray(np.arange(3)),
    "asarray is the same": lambda lib: _is_same(lib, lib.asarray),
    "asarray of a leaf, detached": lambda lib: lib.asarray(
        lib.ones(2, requires_grad=True), requires_grad=False
    ),
    "asarray of a leaf, copied": lambda lib: lib.asarray(
        lib.ones(2, requires_grad=True), copy=True, requires_grad=True
    ),
    "asarray sets the flag": lambda lib: _flagged(lib.ones(2), lib.asarray),
    "asarray of dtype": lambda lib: lib.asarray([1, 2], dtype=lib.float64),
    "asarray requires grad": lambda lib: lib.asarray([1.0], requires_grad=True),
    "asarray must not copy": lambda lib: lib.asarray(lib.ones(2), dtype=lib.int32, copy=False),
    "asarray of a list must not copy": lambda lib: lib.asarray([1, 2], copy=False),
    "scalar_tensor": lambda lib: lib.scalar_tensor(3),
    "scalar_tensor of dtype": lambda lib: lib.scalar_tensor(3, dtype=lib.int32),
    "from_numpy": lambda lib: lib.from_numpy(np.arange(3, dtype=np.uint8)),
    "from_numpy of a list": lambda lib: lib.from_numpy([1]),
    "from_numpy of strings": lambda lib: lib.from_numpy(np.array(["a"])),
    "from_dlpack": lambda lib: lib.from_dlpack(np.arange(3.0)),
    "from_dlpack of a list": lambda lib: lib.from_dlpack([1, 2]),
}


def _flagged(tensor: Any, asarray: Any) -> tuple[bool, bool]:
    return asarray(tensor, requires_grad=True) is tensor, tensor.requires_grad


def _is_same(lib: Any, convert: Any) -> bool:
    tensor = lib.ones(2)
    return convert(tensor) is tensor


FILLING = {
    "fill_": lambda lib: lib.ones(2).fill_(2.5),
    "fill_ integers": lambda lib: lib.ones(2, dtype=lib.int64).fill_(2.7),
    "fill_ with a tensor": lambda lib: lib.ones(2).fill_(lib.tensor(3)),
    "fill_ a view": lambda lib: _filled_view(lib),
    "fill_ on meta": lambda lib: lib.ones(2, device="meta").fill_(3),
    "zero_": lambda lib: lib.ones(2, 3).zero_(),
    "fill_ with a vector": lambda lib: lib.ones(2).fill_(lib.ones(2)),
    "fill_ with a complex number": lambda lib: lib.ones(2).fill_(1j),
    "fill_ overflows": lambda lib: lib.ones(2, dtype=lib.uint8).fill_(300),
    "fill_ a leaf": lambda lib: lib.ones(2, requires_grad=True).fill_(1.0),
    "fill_ with a string": lambda lib: lib.ones(2).fill_("a"),
    "zero_ a leaf": lambda lib: lib.ones(2, requires_grad=True).zero_(),
    "gradients of fill_": lambda lib: _gradients(lib, lambda y, v: y.fill_(2.0)),
    "gradients of fill_ with a tensor": lambda lib: _gradients(lib, lambda y, v: y.fill_(v)),
    "gradients of a filled view": lambda lib: _gradients(lib, lambda y, v: y[1].fill_(v)),
    "gradients of a zeroed view": lambda lib: _gradients(lib, lambda y, v: y[0].zero_()),
}


def _filled_view(lib: Any) -> Any:
    base = lib.zeros(3)
    base[1:].fill_(2)
    return base


def _gradients(lib: Any, change: Any) -> Any:
    leaf, value = lib.ones(3, requires_grad=True), lib.tensor(5.0, requires_grad=True)
    result = leaf * 2
    change(result, value)
    (result * lib.tensor([1.0, 2.0, 3.0])).sum().backward()
    return result, leaf.grad, value.grad


TABLES = {
    "sizes": SIZES, "options": OPTIONS, "full": FULL, "ranges": RANGES, "matrices": MATRICES,
    "like": LIKE, "data": DATA, "filling": FILLING,
}  # fmt: skip
CASES = {f"{table}: {name}": case for table, rows in TABLES.items() for name, case in rows.items()}


@pytest.mark.parametrize("name", CASES)
def test_result_is_pytorchs(name: str) -> None:
    check(CASES[name])


NUMBERS = [True, 2, 0.5, 1j, np.int8(2), np.int32(2), np.float16(2), np.float32(2)]


@pytest.mark.parametrize("first", [*NUMBERS, None], ids=repr)
@pytest.mark.parametrize(
    "last", [np.int32, np.float16, np.float32, np.float64, np.complex64, np.complex128]
)
def test_numbers_of_numpy_keep_their_dtype_among_others(first: Any, last: type) -> None:
    data = last(1) if first is None else [[first], [last(1)]]
    check(lambda lib: (lib.tensor(data), lib.as_tensor(data), lib.asarray(data)))


@pytest.mark.parametrize("shape", [(), (2, 3), (3, 1), (1, 3), (0, 3), (2, 0), (1, 2, 3, 4)])
@pytest.mark.parametrize(
    "formats",
    [False, True, [], ["contiguous_format"], ["channels_last"],
     ["contiguous_format", "channels_last"], "contiguous", [1], None],
    ids=repr,
)  # fmt: skip
def test_order_of_dimensions_in_doubt(shape: tuple[int, ...], formats: Any) -> None:
    def order(lib: Any) -> Any:
        checked = formats
        if isinstance(formats, list):
            checked = [getattr(lib, each) if isinstance(each, str) else each for each in formats]
        return lib.zeros(shape).dim_order(ambiguity_check=checked)

    check(order)


@pytest.mark.parametrize("dtype", ALL)
def test_constants_of_every_dtype(dtype: str) -> None:
    check(
        lambda lib: (
            lib.zeros(2, dtype=getattr(lib, dtype)),
            lib.ones(2, dtype=getattr(lib, dtype)),
            lib.full((2,), 1, dtype=getattr(lib, dtype)),
        )
    )


@pytest.mark.parametrize("dtype", ["uint8", "int32", "int64", *FLOATS])
def test_ranges_of_every_dtype(dtype: str) -> None:
    check(lambda lib: lib.arange(3, 100, 7, dtype=getattr(lib, dtype)))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("steps", [2, 7, 100])
def test_spaces_agree_to_the_precision_of_the_dtype(dtype: str, steps: int) -> None:
    # PyTorch rounds the distance to a 16-bit dtype, which the last numbers have many times.
    tolerance = {"float16": 5e-3, "bfloat16": 4e-2, "float32": 1e-6, "float64": 1e-14}[dtype]
    check(lambda lib: lib.linspace(-3, 10, steps, dtype=getattr(lib, dtype)), tolerance)
    check(lambda lib: lib.logspace(-2, 1.5, steps, dtype=getattr(lib, dtype)), 3 * tolerance)
