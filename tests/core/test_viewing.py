"""The history of views: what they take from their base, and when PyTorch forbids to write."""

from __future__ import annotations

from typing import Any

import pytest

import flambeau


def leaf() -> Any:
    return flambeau.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)


def test_a_view_knows_its_base_and_shares_its_version() -> None:
    x = flambeau.zeros(2, 2)
    row = x[0]
    one = row[1]
    assert x._base is None
    assert row._base is x
    assert one._base is x
    assert row._is_view()
    assert not x._is_view()
    assert not x.detach()._is_view()
    one.fill_(1.0)
    x.data.add_(1)
    assert x._version == row._version == one._version == 2


def test_a_detached_view_shares_elements_but_no_history() -> None:
    x = leaf() * 1
    detached = x[0].detach()
    assert detached._base is None
    assert detached.is_leaf
    assert not detached.requires_grad
    detached.fill_(7.0)
    assert x.tolist() == [[7.0, 7.0], [3.0, 4.0]]
    assert x.grad_fn.name() == "MulBackward0"


def test_a_view_of_a_leaf_is_no_leaf_and_a_view_of_data_is_one() -> None:
    x = leaf()
    assert not x[0].is_leaf
    assert x.data[0].is_leaf
    with flambeau.no_grad():
        assert x[0].is_leaf
        assert not x[0].requires_grad


def test_a_view_follows_a_write_to_its_base_and_its_base_one_to_the_view() -> None:
    x = leaf() * 1
    row, column = x[0], x[:, 0]
    row.mul_(2)
    assert x.grad_fn.name() == "torch::autograd::CopySlices"
    assert column.grad_fn.next_functions[0][0] is x.grad_fn
    x.mul_(2)
    assert row.grad_fn.next_functions[0][0] is x.grad_fn


def test_a_view_keeps_its_history_when_its_base_is_written_unrecorded() -> None:
    x = leaf() * 1
    row = x[0]
    node = row.grad_fn
    with flambeau.no_grad():
        x.add_(1)
        assert row.requires_grad
    assert row.grad_fn is node
    assert row.tolist() == [2.0, 3.0]


def test_views_are_read_late() -> None:
    x = flambeau.zeros(2, 2)
    row, turned = x[0], x.T
    assert (row.tolist(), turned.tolist()) == ([0, 0], [[0, 0], [0, 0]])
    x[0] = flambeau.tensor([1.0, 2.0])
    assert (row.tolist(), turned.tolist()) == ([1, 2], [[1, 0], [2, 0]])
    turned[1] = 5.0
    assert row.tolist() == [1, 5]


def test_parts_of_a_parameter_can_be_initialized_one_by_one() -> None:
    weight = flambeau.zeros(6, 2, requires_grad=True)
    with flambeau.no_grad():
        query, key, value = weight.chunk(3)
        query.fill_(1.0)
        key.zero_()
    value.data.fill_(2.0)
    assert weight[:, 0].tolist() == [1, 1, 0, 0, 2, 2]
    assert weight.is_leaf


def test_unbound_parts_are_recorded_as_one_node() -> None:
    x = leaf()
    first, second = x.unbind()
    assert first.grad_fn is second.grad_fn
    assert (first.output_nr, second.output_nr) == (0, 1)
    (first * second).sum().backward()
    assert x.grad.tolist() == [[3.0, 4.0], [1.0, 2.0]]


def test_gradients_of_gradients_pass_through_views() -> None:
    x = leaf()
    product = x.t()[0] * x.unbind()[0]
    (first,) = flambeau.autograd.grad(product.sum(), x, create_graph=True)
    assert first.tolist() == [[2.0, 3.0], [2.0, 0.0]]
    (second,) = flambeau.autograd.grad((first * first).sum(), x)
    assert second.tolist() == [[8.0, 4.0], [6.0, 0.0]]


def test_a_tensor_hook_on_a_view_sees_its_gradient() -> None:
    x = leaf() * 1
    row = x[1]
    seen: list[Any] = []
    row.register_hook(lambda grad: seen.append(grad.tolist()))
    (row * 3).sum().backward()
    assert seen == [[3.0, 3.0]]


FORBIDDEN = {
    "a leaf": (lambda x: x.add_(1), r"add_\(\): a leaf Variable .* no_grad\(\)"),
    "a view of a leaf": (lambda x: x[0].add_(1), r"a view of a leaf"),
    "a part of several": (lambda x: (x * 1).unbind()[0].add_(1), r"unbind\(\)"),
    "a chunk of several": (lambda x: (x * 1).chunk(2)[0][0].add_(1), r"split\(\)"),
    "a detached view": (lambda x: x[0].detach_(), "detach"),
    "a leaf's shape": (lambda x: x.unsqueeze_(0), r"unsqueeze_\(\): a leaf"),
}


@pytest.mark.parametrize("name", FORBIDDEN)
def test_writes_that_pytorch_forbids(name: str) -> None:
    write, message = FORBIDDEN[name]
    x = leaf()
    with pytest.raises(RuntimeError, match=message):
        write(x)
    assert x.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert x.shape == (2, 2)


def test_a_view_made_in_no_grad_mode_takes_no_recorded_write() -> None:
    x = leaf() * 1
    with flambeau.no_grad():
        row = x[0]
        row.add_(1)
    with pytest.raises(RuntimeError, match="no_grad mode"):
        row.add_(1)
    x.add_(1)
    with pytest.raises(RuntimeError, match="no_grad mode"):
        assert row.grad_fn


def test_reshaping_in_place_changes_the_tensor_itself() -> None:
    x = flambeau.arange(6.0).view(2, 3).clone()
    row = x[0]
    assert x.unsqueeze_(0) is x
    assert x.shape == (1, 2, 3)
    x.transpose_(1, 2)
    x.squeeze_(0).t_()
    assert x.shape == (2, 3)
    assert not x._is_view()
    x[0, 0] = 9.0
    assert row.tolist() == [9.0, 1.0, 2.0]
    y = leaf() * 1
    y.t_()
    assert y.grad_fn.name() == "TBackward0"
    y[0].mul_(10)
    assert y.tolist() == [[10.0, 30.0], [2.0, 4.0]]


@pytest.mark.parametrize("write", [False, True])
def test_a_gradient_is_retained_through_a_change_of_shape_in_place(write: bool) -> None:
    x = leaf()
    y = x * 2
    y.retain_grad()
    loss = (y * y).sum()
    y.t_().unsqueeze_(0)
    assert y.retains_grad
    if write:
        y.mul_(3)  # the retained gradient is that of the new value, as after any write
    (loss + y.sum()).backward(retain_graph=True)
    expected = [[[1.0, 1.0], [1.0, 1.0]]] if write else [[[5.0, 13.0], [9.0, 17.0]]]
    assert y.grad.tolist() == expected
    y.squeeze_(0)
    assert y.grad.tolist() == expected[0]
    y.sum().backward()
    assert y.grad.tolist() == [[each + 1 for each in row] for row in expected[0]]


@pytest.mark.parametrize("through", ["base", "view"])
def test_a_view_that_was_written_to_retains_no_gradient_of_its_old_value(through: str) -> None:
    base = leaf() * 2
    view = base.t()
    view.retain_grad()
    used = view.sum()
    (base if through == "base" else view).mul_(3)
    (base.sum() + used).backward(retain_graph=True)
    assert view.grad is None
    view.sum().backward()
    assert view.grad.tolist() == [[1.0, 1.0], [1.0, 1.0]]


def test_a_retained_gradient_of_another_shape_has_a_history_of_its_own() -> None:
    x = leaf()
    y = x * 2
    y.retain_grad()
    loss = (y**3).sum()
    y.t_()
    loss.backward(create_graph=True)
    (second,) = flambeau.autograd.grad(y.grad.sum(), [x])
    assert second.tolist() == (24 * x).tolist()


def test_a_tensor_reshaped_in_place_is_no_view_and_can_be_detached() -> None:
    x = leaf()
    y = x * 2
    y.t_().unsqueeze_(0)
    assert not y._is_view()
    assert y._base is None
    kept = y[0]
    assert y.detach_() is y
    assert y.is_leaf
    y.mul_(2)
    assert y.tolist() == [[[4.0, 12.0], [8.0, 16.0]]]
    assert kept.tolist() == y[0].tolist()
    view = (x * 2).t()
    view.unsqueeze_(0)
    assert view._is_view()
    with pytest.raises(RuntimeError, match="cannot detach a view"):
        view.detach_()


def test_a_gradient_of_the_shape_before_an_unrecorded_change_is_an_error() -> None:
    x = leaf()
    y = x[:1] * 2
    with flambeau.no_grad():
        y.t_()
    with pytest.raises(RuntimeError, match=r"\[2, 1\] arrived for a result of shape \[1, 2\]"):
        y.sum().backward()


def test_views_made_before_reshaping_in_place_are_read() -> None:
    x = flambeau.arange(6.0).view(2, 3).clone()
    row = x[1]
    x.unsqueeze_(0)
    assert not row.requires_grad
    assert (row * 1).tolist() == [3.0, 4.0, 5.0]
    x.mul_(2)
    assert row[1:].tolist() == [8.0, 10.0]
    # A history that begins later cannot be followed back through the change of shape.
    x.mul_(flambeau.ones(3, requires_grad=True))
    with pytest.raises(RuntimeError, match="given another shape in place"):
        row * 1


def test_a_compiled_program_reshapes_what_comes_from_outside() -> None:
    x = flambeau.zeros(2)
    run = flambeau.compile(lambda: x.unsqueeze_(0))
    assert run() is x
    assert run().shape == (1, 1, 2)
    x = flambeau.zeros(2)
    assert flambeau.compile(lambda a: a.clone().unsqueeze_(0))(x).shape == (1, 2)


def test_writes_through_views_in_a_compiled_program() -> None:
    state = flambeau.zeros(3)

    @flambeau.compile
    def step(x: Any) -> Any:
        state[1:].add_(x)
        y = x * 2
        y[0].mul_(x[1])
        y.sum().backward()
        return state * 1

    x = flambeau.tensor([2.0, 3.0], requires_grad=True)
    for count in (1, 2):
        x.grad = None
        assert step(x).tolist() == [0.0, 2.0 * count, 3.0 * count]
        assert x.grad.tolist() == [6.0, 6.0]
    assert state.tolist() == [0.0, 4.0, 6.0]
