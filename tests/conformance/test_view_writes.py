"""Writing in place through views against PyTorch: values, gradients, errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import flambeau
from tests.conformance.operators import Row, assert_close, compare, table

RANDOM = np.random.default_rng(3)
M = RANDOM.standard_normal((3, 4)).astype(np.float32)
V = RANDOM.standard_normal(4).astype(np.float32)


def write_a_view(lib: Any, x: Any, w: Any) -> Any:
    y = x * 2
    y[0].mul_(w)
    return y * 3


def write_a_view_of_a_view(lib: Any, x: Any, w: Any) -> Any:
    y = x * 2
    y.t()[1:3][:, 0].mul_(w[:2]).add_(1)
    return y * y


def write_a_view_made_before_another_write(lib: Any, x: Any, w: Any) -> Any:
    y = x * 2
    row, column = y[0], y[:, 0]
    row.mul_(w)
    column.add_(w[:3])
    return y * 1, row * 2, column * 3


def write_the_base_then_read_a_view(lib: Any, x: Any, w: Any) -> Any:
    y = x * 2
    row = y[1]
    y.mul_(w)
    return row * row, y * 1


def write_a_view_of_what_took_no_gradient(lib: Any, x: Any, w: Any) -> Any:
    y = lib.zeros(3, 4)
    y[1] = w
    y.view(-1)[:4].copy_(w * 2)
    y[2, 1:3].add_(x[0, :2])
    return y * x


def fill_a_view(lib: Any, x: Any, w: Any) -> Any:
    y = x * 2
    row = y[1]
    row.fill_(3.0)
    y[2].zero_()
    return y * w, row * 1


def fill_everything(lib: Any, x: Any, w: Any) -> Any:
    y = x * 2
    y.fill_(3.0)
    return y * w


def copy_everything(lib: Any, x: Any, w: Any) -> Any:
    y = x * 2
    y.copy_(w)
    return y * y


def write_a_transposed_view(lib: Any, x: Any, w: Any) -> Any:
    y = x * 2
    y.T.copy_(w[:, None])
    return y * x


def write_a_diagonal(lib: Any, x: Any, w: Any) -> Any:
    y = x * 2
    y.diagonal().mul_(w[:3])
    return y * y


def write_windows(lib: Any, x: Any, w: Any) -> Any:
    y = x * 2
    y.unfold(1, 2, 2).mul_(w[:2])
    return y * y


def write_a_view_twice(lib: Any, x: Any, w: Any) -> Any:
    y = x * 2
    row = y[0]
    row *= w
    row *= w
    y[0] += 1
    return y * 1, row * 1


def write_by_list_through_a_view(lib: Any, x: Any, w: Any) -> Any:
    y = x * 2
    y[1:][[1, 0]] = w
    y[0][w > 0] = 5.0
    return y * y


def write_without_recording(lib: Any, x: Any, w: Any) -> Any:
    y = x * 2
    row = y[0]
    with lib.no_grad():
        row.mul_(w)
        y.add_(1)
    return y * 1, row * 1


def write_past_the_tape(lib: Any, x: Any, w: Any) -> Any:
    y = x * 2
    y.data[0] = 7.0
    y.detach()[1].fill_(8.0)
    return y * w


def write_a_leaf_past_the_tape(lib: Any, x: Any, w: Any) -> Any:
    x.data[0].fill_(2.0)
    with lib.no_grad():
        x[1].zero_()
        for part in x.chunk(2, 1):
            part[2].fill_(1.0)
    return x * x


def view_a_detached_view(lib: Any, x: Any, w: Any) -> Any:
    y = x * 2
    detached = y[1:].detach().requires_grad_()
    z = detached[0] * w
    z.backward(lib.ones(4))
    return y * 1, detached.grad * 1


def write_a_view_of_a_detached_view(lib: Any, x: Any, w: Any) -> Any:
    y = x * 2
    detached = y[1:].detach()
    part = detached[0]
    part.mul_(w)
    return y * 1, detached * 1, part * 1


def write_what_einsum_rearranges(lib: Any, x: Any, w: Any) -> Any:
    y = x * 2
    lib.einsum("ij->ji", y)[0].mul_(3)
    lib.einsum("ii->i", y[:, :3]).add_(w[:3])
    lib.einsum("ij", y)[1].mul_(2)
    lib.einsum("iij->ji", y[:, None, :1].expand(3, 3, 1) * 1).zero_()
    lib.einsum("ij->i", y).zero_()
    return y * x


def reshape_in_place(lib: Any, x: Any, w: Any) -> Any:
    y = x * 2
    y.unsqueeze_(0)
    y.mul_(w)
    y.squeeze_(0)
    y.t_()
    y[0].mul_(w[:3])
    return y * 1


def view_then_reshape_in_place(lib: Any, x: Any, w: Any) -> Any:
    y = x * 2
    row = y[1]
    y.transpose_(0, 1)
    y.mul_(w[:, None])
    return row * 1, y * 1


def require_grad_after_writing(lib: Any, x: Any, w: Any) -> Any:
    y = lib.zeros(3, 4)
    y[0] = 1.0
    y.requires_grad_()
    (y * x).backward(lib.ones(3, 4))
    return y.grad * 1


def write_a_leaf(lib: Any, x: Any, w: Any) -> Any:
    x.mul_(2)


def write_a_view_of_a_leaf(lib: Any, x: Any, w: Any) -> Any:
    x[0].mul_(2)


def write_a_view_made_before_its_base_required_grad(lib: Any, x: Any, w: Any) -> Any:
    y = lib.zeros(3, 4)
    row = y[0]
    y.requires_grad_()
    row.add_(1)


def write_a_view_that_is_a_leaf(lib: Any, x: Any, w: Any) -> Any:
    row = lib.zeros(3, 4)[0].requires_grad_()
    row.add_(1)


def write_a_leaf_that_is_a_view_past_the_tape(lib: Any, x: Any, w: Any) -> Any:
    base = lib.zeros(3, 4)
    row = base[0].requires_grad_()
    row.data.add_(1)
    (row * w).backward(lib.ones(4))
    return row.grad * 1, base * 1


def write_one_of_several_views(lib: Any, x: Any, w: Any) -> Any:
    first, *_ = (x * 2).unbind()
    first.mul_(2)


def write_the_base_of_several_views(lib: Any, x: Any, w: Any) -> Any:
    y = x * 2
    first, _ = y.chunk(2)
    y.mul_(2)
    return first * 1


def write_a_view_made_without_recording(lib: Any, x: Any, w: Any) -> Any:
    y = x * 2
    with lib.no_grad():
        row = y[0]
    row.mul_(2)


def write_the_base_of_a_view_made_without_recording(lib: Any, x: Any, w: Any) -> Any:
    y = x * 2
    with lib.no_grad():
        row = y[0]
    y.mul_(2)
    return row.grad_fn


def write_an_expanded_view(lib: Any, x: Any, w: Any) -> Any:
    (x * 2)[:, :1].expand(3, 4).mul_(2)


def detach_a_view_in_place(lib: Any, x: Any, w: Any) -> Any:
    (x * 2)[0].detach_()


def write_a_wrong_shape(lib: Any, x: Any, w: Any) -> Any:
    (x * 2)[0].mul_(lib.ones(2, 4))


def program_rows() -> Iterator[Row]:
    programs = [
        each
        for each in globals().values()
        if callable(each) and getattr(each, "__annotations__", {}).get("lib") == "Any"
    ]
    for each in programs:
        yield Row(each.__name__.replace("_", " "), each, (M, V), node=False)


@table(program_rows())
def test_programs(row: Row) -> None:
    compare(row)


# Random programs: views of what is there, and writes to it

VIEWS: dict[str, Callable[[Any], Any]] = {
    "row": lambda x: x[-1] if len(x) else x,
    "rows": lambda x: x[1:],
    "every other": lambda x: x[::2],
    "turned": lambda x: x.T if x.ndim == 2 else x,
    "flat": lambda x: x[:2].reshape(-1) if x.ndim == 2 and x.shape[1] == 4 else x,
    "raised": lambda x: x.unsqueeze(0),
    "diagonal": lambda x: x.diagonal() if x.ndim == 2 else x,
}
# What is multiplied is cloned, since PyTorch refuses to write to what a node has saved.
WRITES: dict[str, Callable[[Any, Any], Any]] = {
    "scaled": lambda x, w: x.copy_(x.clone() * w),
    "squared": lambda x, w: x.copy_(x.clone() * x.clone()),
    "raised by": lambda x, w: x.add_(w),
    "filled": lambda x, w: x.fill_(2.0),
    "copied": lambda x, w: x.copy_(w),
    "assigned": lambda x, w: x.__setitem__(..., w * 2),
}


def run_program(lib: Any, actions: list[tuple[str, int]]) -> list[np.ndarray]:
    to_tensor = torch.from_numpy if lib is torch else flambeau.from_numpy
    x, w = (
        to_tensor(M.copy()).requires_grad_(),
        to_tensor(np.array(1.5, np.float32)).requires_grad_(),
    )
    seen = [x * 2]
    for action, which in actions:
        chosen = seen[which % len(seen)]
        if action in VIEWS:
            if chosen.ndim:
                seen.append(VIEWS[action](chosen))
        else:
            WRITES[action](chosen, w)
    total = sum((each.clone() * (number + 1)).sum() for number, each in enumerate(seen))
    total.backward()
    values = [each.detach().numpy() for each in seen]
    return [*values, x.grad.numpy(), w.grad.numpy() if w.grad is not None else np.zeros(())]


@settings(max_examples=40)
@given(
    actions=st.lists(
        st.tuples(st.sampled_from([*VIEWS, *WRITES]), st.integers(0, 4)), min_size=2, max_size=6
    )
)
def test_random_programs(actions: list[tuple[str, int]]) -> None:
    for found, expected in zip(
        run_program(flambeau, actions), run_program(torch, actions), strict=True
    ):
        assert_close(found, expected, 1e-4)
