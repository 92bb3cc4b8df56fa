"""Custom operators against PyTorch's: schemas, results, gradients, and errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

import numpy as np
import pytest
import torch
import torch.library

import flambeau
import flambeau.library


def prototypes(lib: Any) -> list[tuple[Any, Any]]:
    """Annotated functions, and what they write to."""
    tensor = lib.Tensor

    def one(x: tensor, y: float, n: int = 2, flag: bool = True) -> tensor: ...
    def two(
        x: tensor, *, mode: str = "a", dtype: lib.dtype | None = None
    ) -> tuple[tensor, tensor]: ...
    def three(xs: Sequence[tensor], sizes: list[int], scale: float | None) -> list[tensor]: ...
    def four(x: tensor, out: tensor, where: lib.device) -> None: ...
    def five(x: Optional[tensor]) -> tensor: ...  # noqa: UP045

    for each in (one, two, three, four, five):
        names = {"tensor": tensor, "lib": lib, "Optional": Optional, "Sequence": Sequence}
        each.__annotations__ = {
            name: eval(hint, names) if hint != "None" else None
            for name, hint in each.__annotations__.items()
        }
    return [(one, ()), (two, ()), (three, ()), (four, {"out"}), (four, "unknown"), (five, ())]


def test_schemas() -> None:
    pairs = zip(prototypes(flambeau), prototypes(torch), strict=True)
    for (ours, writes), (theirs, _) in pairs:
        got = flambeau.library.infer_schema(ours, mutates_args=writes)
        expected = torch.library.infer_schema(theirs, mutates_args=writes)
        for letter in "abcd":
            expected = expected.replace(f"({letter}!)", "(a!)")
            expected = expected.replace(f"(a{'bcd'.find(letter)}!)", "(a!)")
        assert got == expected


def program(lib: Any) -> list[Any]:
    """What an operator with a NumPy kernel gives."""

    def cube(x: lib.Tensor, factor: float) -> tuple[lib.Tensor, lib.Tensor]:
        value = x.detach().numpy()
        return lib.from_numpy(value**3 * factor), lib.from_numpy(value * factor)

    cube.__annotations__ = {
        "x": lib.Tensor, "factor": float, "return": tuple[lib.Tensor, lib.Tensor],
    }  # fmt: skip
    name = f"conformance_{lib.__name__}::cube"
    made = lib.library.custom_op(name, cube, mutates_args=())

    def setup(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(inputs[0])
        ctx.factor = inputs[1]

    def backward(ctx: Any, one: Any, other: Any) -> Any:
        (x,) = ctx.saved_tensors
        return (one * 3 * x**2 + other) * ctx.factor, None

    made.register_fake(lambda x, factor: (lib.empty_like(x), lib.empty_like(x)))
    made.register_autograd(backward, setup_context=setup)
    x = lib.tensor([0.5, -1.0], dtype=lib.float64, requires_grad=True)
    first, second = getattr(lib.ops, f"conformance_{lib.__name__}").cube(x, 2.0)
    (first.sum() + second.square().sum()).backward()
    shape = made(lib.empty(3, device="meta"), 1.0)[0].shape
    return [first.tolist(), second.tolist(), x.grad.tolist(), tuple(shape)]


def test_results_and_gradients() -> None:
    for ours, theirs in zip(program(flambeau), program(torch), strict=True):
        np.testing.assert_allclose(ours, theirs)


def library_of(lib: Any) -> Any:
    made = lib.library.Library(f"conformance2_{lib.__name__}", "FRAGMENT")
    made.define("scale(Tensor x, float factor, *, int times=1) -> Tensor")
    made.impl("scale", lambda x, factor, times=1: x * factor**times, "CompositeImplicitAutograd")
    return getattr(lib.ops, f"conformance2_{lib.__name__}"), made


def test_libraries_and_their_errors() -> None:
    kinds = []
    for lib in (flambeau, torch):
        ops, made = library_of(lib)
        x = lib.ones(2)
        assert ops.scale(x, 2.0, times=3).tolist() == [8.0, 8.0]
        found = []
        calls = [
            lambda ops=ops: ops.scale(), lambda ops=ops, x=x: ops.scale(x),
            lambda ops=ops, x=x: ops.scale(x, 2.0, 3), lambda ops=ops: ops.scale(2.0, 2.0),
            lambda ops=ops, x=x: ops.scale(x, 2.0, other=3), lambda ops=ops: ops.missing,
            lambda lib=lib: lib.library.Library("a", "B"),
            lambda made=made: made.impl("scale", 3),
        ]  # fmt: skip
        for call in calls:
            with pytest.raises(Exception) as error:  # noqa: PT011 (compared below)
                call()
            found.append(error.type.__name__)
        kinds.append(found)
    assert kinds[0] == kinds[1]
