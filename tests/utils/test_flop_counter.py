"""Floating-point operations are counted by operator and by module."""

import flambeau
import flambeau.nn.functional as F
from flambeau.utils.flop_counter import FlopCounterMode, register_flop_formula


def test_products_and_their_gradients():
    x, w = flambeau.ones(2, 3, requires_grad=True), flambeau.ones(4, 3, requires_grad=True)
    with FlopCounterMode(display=False) as counter:
        F.linear(x, w).sum().backward()
    forward = 2 * 2 * 3 * 4
    assert counter.get_total_flops() == 3 * forward
    with FlopCounterMode(display=False) as counter:
        F.linear(x.detach(), w).sum().backward()
    assert counter.get_total_flops() == 2 * forward


def test_modules_have_names(capsys):
    class Net(flambeau.nn.Module):
        def __init__(self):
            super().__init__()
            self.body = flambeau.nn.Sequential(flambeau.nn.Linear(3, 4), flambeau.nn.ReLU())
            self.head = flambeau.nn.Linear(4, 2)

        def forward(self, x):
            return self.head(self.body(x))

    net = Net()
    with FlopCounterMode(depth=None) as counter:
        net(flambeau.ones(2, 3)).sum().backward()
    found = {name: sum(counts.values()) for name, counts in counter.get_flop_counts().items()}
    body, head = 2 * 2 * 3 * 4, 2 * 2 * 4 * 2
    assert found == {
        "Global": 2 * body + 3 * head, "Net": 2 * body + 3 * head, "Net.body": 2 * body,
        "Net.body.0": 2 * body, "Net.head": 3 * head,
    }  # fmt: skip
    assert "Net.body.0" in capsys.readouterr().out


def test_compiled_functions_are_counted():
    matmul = flambeau.compile(lambda a, b: a @ b)
    a = flambeau.ones(3, 3)
    matmul(a, a)
    with FlopCounterMode(display=False) as counter:
        matmul(a, a)
    assert counter.get_total_flops() == 2 * 27


def test_formulas_of_ones_own():
    @register_flop_formula(flambeau.ops.aten.exp)
    def _(x, out_shape):
        return 10 * out_shape[0]

    with FlopCounterMode(display=False) as counter:
        flambeau.ones(3).exp()
    assert counter.get_total_flops() == 30


def test_a_product_of_three_goes_from_the_left():
    a = flambeau.ones(2, 3)
    with FlopCounterMode(display=False) as counter:
        flambeau.einsum("ij,jk,kl->il", a, flambeau.ones(3, 4), flambeau.ones(4, 5))
    assert counter.get_total_flops() == 2 * (2 * 3 * 4 + 2 * 4 * 5)
