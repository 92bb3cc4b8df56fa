"""Selections: what cannot be done with them says which line made them, and what to do."""

import pytest

import flambeau
from flambeau import nn
from flambeau.compile.errors import CompileError


class Keeper:
    kept = None


def kept(x):
    Keeper.kept = x[x > 0]
    return x.sum()


def assigned(x):
    y = flambeau.zeros(2)
    y.add_(x[x > 0])
    return y


def grown(x):
    x[x > 0].requires_grad = True


# What a compiled function does with what it has selected, and words of the error.
REFUSED = {
    "returned": (lambda x: x[x > 0], "returned.*flambeau.where"),
    "returned in a list": (lambda x: [x.sum(), x[x > 0]], "returned.*flambeau.where"),
    "indices returned": (lambda x: x.nonzero(), "returned.*flambeau.where"),
    "kept": (kept, "kept.*flambeau.where"),
    "shape": (lambda x: range(x[x > 0].shape[0]), r"number of its elements.*mask\.sum\(\)"),
    "size": (lambda x: x / x[x > 0].size(0), r"number of its elements.*mask\.sum\(\)"),
    "size that is compared": (lambda x: x[x > 0].shape == (1,), "compared with 1.*one mask"),
    "numel": (lambda x: x / x[x > 0].numel(), r"number of its elements.*mask\.sum\(\)"),
    "len": (lambda x: x * len(x[x > 0]), r"number of its elements.*mask\.sum\(\)"),
    "iteration": (lambda x: list(x[x > 0]), "unbind"),
    "item": (lambda x: x[x > 0].item(), r"item\(\) cannot"),
    "tolist": (lambda x: x[x > 0].tolist(), r"tolist\(\) cannot"),
    "numpy": (lambda x: x[x > 0].numpy(), r"numpy\(\) cannot"),
    "truth": (lambda x: 1 if x[x > 0] else 2, "__bool__"),
    "two masks": (lambda x: x[x > 0] + x[x < 0], "two masks.*mask1 & mask2"),
    "masks of other values": (
        lambda x: x[x > 0] + x[x + 1 > 0],
        "two masks.*mask1 & mask2",
    ),
    "another length": (lambda x: x[x > 0] + flambeau.ones(2), r"shape \[2\].*by the same mask"),
    "write into another length": (assigned, r"shape \[2\].*by the same mask"),
    "write of another length": (
        lambda x: x.__setitem__(x > 0, x[x < 0]),
        "two masks.*mask1 & mask2",
    ),
    "write of too few dimensions": (
        lambda x: x.expand(2, 2).clone().__setitem__(x > 0, x[x > 0]),
        "by the same mask",
    ),
    "index of another length": (
        lambda x: flambeau.ones(2, 2)[x.nonzero()[:, 0], flambeau.tensor([0, 1])],
        r"shape \[2\].*by the same mask",
    ),
    "pairs": (lambda x: x[x > 0][:, None] * x[x > 0], "by the same mask"),
    "product with another length": (lambda x: x[x > 0] @ x, r"shape \[2\].*by the same mask"),
    "order": (lambda x: x[x > 0].sort(), r"sort\(\) cannot"),
    "squeeze": (lambda x: x[x > 0].squeeze(), r"squeeze\(1\)"),
    "end": (lambda x: x[x > 0][-1], "from its end"),
    "operator without a form": (lambda x: flambeau.fft.fft(x[x > 0]), r"fft\(\) cannot"),
    "batch statistics": (
        lambda x: nn.functional.batch_norm(x[x > 0], None, None, training=True),
        "flambeau.where",
    ),
    "position in it": (
        lambda x: x[x > 0].index_fill_(0, flambeau.tensor([0]), 2),
        r"index_fill_\(\) cannot",
    ),
    "size of a layer": (
        lambda x: nn.functional.rms_norm(x, x[x > 0].shape),
        r"number of its elements.*mask\.sum\(\)",
    ),
    "out": (lambda x: flambeau.exp(x[x > 0], out=x), r"exp\(\) cannot"),
    "leaf": (grown, "leaf"),
    "hook": (lambda x: x[x > 0].register_hook(print), r"register_hook\(\) cannot"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_needs_the_length_is_refused_by_name_and_line(name):
    function, words = REFUSED[name]
    with pytest.raises(CompileError, match=f"(?s){words}") as caught:
        flambeau.compile(function, fullgraph=True)(flambeau.tensor([1.0, -1.0]))
    first, _, reason = str(caught.value).partition("\n")
    line = r"test_selection.py, line"
    assert line in first
    assert line in reason
    assert "move this line out of the compiled function" in reason


def test_length_of_what_is_selected_twice_is_the_same():
    @flambeau.compile
    def check(x):
        both = x[x > 0], (x * 2)[x > 0]
        assert both[0].shape == both[1].shape
        assert both[0].unsqueeze(1).shape[1] == 1
        assert x[None, x > 0].shape[0] == len(x[None, x > 0]) == 1
        return both[0].sum() / both[1].mean()

    assert check(flambeau.tensor([1.0, 3.0])).item() == 1.0


def test_a_tensor_takes_the_dtype_of_a_selection():
    convert = flambeau.compile(lambda x: flambeau.ones(2, dtype=flambeau.float64).to(x[x > 0]))
    assert convert(flambeau.tensor([1.0, -1.0])).dtype is flambeau.float32


def test_what_is_known_is_told():
    @flambeau.compile
    def ask(x):
        picked = x[x[:, 0] > 0]
        assert (picked.ndim, picked.dim(), picked.dtype) == (2, 2, flambeau.float32)
        assert picked.device == x.device
        assert picked.requires_grad == flambeau.is_grad_enabled()
        assert picked.is_floating_point()
        assert repr(picked) == "tensor(..., size=(?, 3), dtype=flambeau.float32)"
        return picked.sum()

    x = flambeau.ones(2, 3, requires_grad=True)
    with flambeau.no_grad():
        ask(x)
    assert ask(x).item() == 6.0


def test_greatest_of_nothing_is_nan_and_no_position():
    @flambeau.compile
    def greatest(x):
        picked = x[x > 0]
        return picked.max(), picked.amin(), picked.median(), picked[1]

    found = greatest(flambeau.tensor([-1.0, -2.0]))
    assert all(each.isnan().item() for each in found)
    found = greatest(flambeau.tensor([3.0, 2.0]))
    assert [each.item() for each in found] == [3.0, 2.0, 2.0, 2.0]


def test_mask_that_is_written_between_two_selections_is_another():
    def function(x, mask):
        first = x[mask]
        mask.logical_not_()
        return first + x[mask]

    with pytest.raises(CompileError, match="two masks"):
        flambeau.compile(function, fullgraph=True)(flambeau.ones(2), flambeau.tensor([True, False]))


def test_autocast_computes_selections_in_the_lower_precision():
    @flambeau.compile
    def product(x, w):
        with flambeau.autocast("cpu", dtype=flambeau.bfloat16):
            return (x[x[:, 0] > 0] @ w).sum(0)

    found = product(flambeau.ones(2, 2), flambeau.ones(2, 2))
    assert found.dtype is flambeau.bfloat16
    assert found.tolist() == [4.0, 4.0]


def test_layers_take_selections():
    layer = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.GELU(), nn.Linear(4, 2))
    x, target = flambeau.randn(5, 3), flambeau.tensor([0, 1, -1, 1, -1])

    def loss(x, target):
        found = nn.CrossEntropyLoss()(layer(x[target >= 0]), target[target >= 0])
        found.backward()
        return found

    expected = loss(x, target).item()
    gradients = [each.grad.clone() for each in layer.parameters()]
    layer.zero_grad()
    found = flambeau.compile(loss)(x, target).item()
    assert found == pytest.approx(expected, rel=1e-5)
    for each, gradient in zip(layer.parameters(), gradients, strict=True):
        flambeau.testing.assert_close(each.grad, gradient, rtol=1e-4, atol=1e-6)
