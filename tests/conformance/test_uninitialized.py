"""What uninitialized parameters and buffers allow and refuse is what PyTorch's do."""

from __future__ import annotations

import operator
from typing import Any

import pytest
import torch

import flambeau

MAKE = {
    "parameter": lambda lib: lib.nn.UninitializedParameter(),
    "frozen parameter": lambda lib: lib.nn.UninitializedParameter(requires_grad=False),
    "double parameter": lambda lib: lib.nn.UninitializedParameter(dtype=lib.float64),
    "buffer": lambda lib: lib.nn.UninitializedBuffer(),
}
ALLOWED = [
    "x.half()", "x.float()", "x.double()", "x.char()", "x.short()", "x.int()", "x.long()",
    "x.cpu()", "x.to('cpu')", "x.to('meta')", "x.to(lib.float64)", "x.to(lib.int32)",
    "x.to(lib.zeros(1))", "x.to(device='cpu', dtype=lib.float64)", "x.to(copy=True)",
    "x.half().to(lib.float32)", "x.copy_(lib.zeros(2))", "x.is_floating_point()", "x.is_complex()",
    "x.size()", "x.size(0)", "x.get_device()", "hash(x) == hash(x)", "x == x", "x != x",
    "x in [x]", "x.cpu() is x", "x.float() is x", "x.dtype", "x.device", "x.ndim", "x.is_leaf",
    "x.requires_grad", "x.grad", "x.grad_fn", "x.is_meta", "x.itemsize", "x._version", "repr(x)",
    "x.requires_grad_", "lib.is_tensor(x)", "x.materialize((2, 3))", "x.cls_to_become",
    "lib.as_tensor(x)",
]  # fmt: skip
REFUSED = [
    "x.shape", "x.share_memory_()", "x + 1", "1 + x", "x @ x", "-x", "abs(x)", "x ** 2", "2 ** x",
    "x / 2", "x // 2", "x % 2", "x < 1", "x >= 1", "~x", "x & x", "x << 1", "divmod(x, 2)",
    "x[0]", "operator.setitem(x, 0, 1)", "operator.iadd(x, 1)", "x.__contains__(1)",
    "bool(x)", "len(x)", "iter(x)", "int(x)", "float(x)", "complex(x)", "x.__index__()",
    "x.item()", "x.tolist()", "x.numpy()", "x.__array__()", "x.__dlpack__()", "x.dim()",
    "x.numel()", "x.stride()", "x.element_size()", "x.data_ptr()", "x.contiguous()",
    "x.is_contiguous()", "x.is_shared()", "x.storage_offset()", "x.detach()", "x.detach_()",
    "x.clone()", "x.zero_()", "x.fill_(1)", "x.add_(1)", "x.normal_()", "x.uniform_()",
    "x.requires_grad_()", "x.backward()", "x.register_hook(print)", "x.retain_grad()",
    "x.view(1)", "x.reshape(1)", "x.sum()", "x.type()", "x.bfloat16()", "x.bool()", "x.byte()",
    "x.new_zeros(2)", "x.where(x, x)", "x.foo", "lib.add(x, 1)", "lib.zeros_like(x)",
    "lib.empty_like(x)", "lib.cat([x, x])", "lib.stack([x])", "lib.where(x, x, x)",
    "lib.equal(x, x)", "lib.allclose(x, x)", "lib.numel(x)", "lib.is_floating_point(x)",
    "lib.broadcast_tensors(x, x)", "lib.nn.functional.linear(lib.ones(1), x)",
    "lib.nn.init.zeros_(x)", "lib.nn.init.uniform_(x)", "lib.nn.Buffer(x)", "lib.nn.Parameter(x)",
    "x.expand_as(lib.zeros(2))", "x.is_same_size(x)",
]  # fmt: skip


def outcome(lib: Any, kind: str, expression: str) -> Any:
    """What an expression of an uninitialized tensor gives, in plain Python."""
    names = {"x": MAKE[kind](lib), "lib": lib, "operator": operator}
    try:
        value = eval(expression, names)
    except Exception as error:  # noqa: BLE001 - whatever is raised is the outcome
        return type(error).__name__
    if isinstance(value, lib.Tensor):
        lazy = lib.nn.parameter.is_lazy(value)
        shape = None if lazy else tuple(value.shape)
        facts = type(value).__name__, lazy, shape, value.requires_grad, str(value.device)
        return *facts, str(value.dtype).rpartition(".")[2]
    if isinstance(value, type):
        return value.__name__
    if isinstance(value, lib.dtype | lib.device):
        return str(value).rpartition(".")[2]
    return "callable" if callable(value) else value


@pytest.mark.parametrize("kind", MAKE)
@pytest.mark.parametrize("expression", ALLOWED)
def test_allowed_gives_what_pytorch_gives(expression: str, kind: str) -> None:
    assert outcome(flambeau, kind, expression) == outcome(torch, kind, expression)


@pytest.mark.parametrize("kind", MAKE)
@pytest.mark.parametrize("expression", REFUSED)
def test_refused_raises_what_pytorch_raises(expression: str, kind: str) -> None:
    found = outcome(flambeau, kind, expression)
    assert found == outcome(torch, kind, expression)
    assert found.endswith("Error")
