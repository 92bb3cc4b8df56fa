import pytest

import flambeau
from flambeau import nn
from flambeau.compile.errors import CompileError
from flambeau.func.control_flow import cond, map, scan, while_loop


def both(function, **options):
    """The function itself, and compiled."""
    return function, flambeau.compile(function, **options)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_cond_chooses_by_a_value_also_in_a_program(sign):
    layer = nn.Linear(2, 2)

    def choose(x):
        return cond(x.sum() > 0, lambda x: layer(x).sum(), lambda x: (x**3).sum(), (x,))

    gradients = []
    for function in both(choose):
        layer.zero_grad()
        x = flambeau.tensor([1.0, 2.0]).mul(sign).requires_grad_()
        result = function(x)
        result.backward()
        gradients.append((float(result), x.grad.tolist(), layer.weight.grad))
    (value, of_x, of_weight), (compiled, compiled_of_x, compiled_of_weight) = gradients
    assert compiled == pytest.approx(value)
    assert compiled_of_x == pytest.approx(of_x)
    # In the program, what only the other branch reads has a gradient of zeros.
    expected = flambeau.zeros(2, 2) if of_weight is None else of_weight
    flambeau.testing.assert_close(compiled_of_weight, expected)


def test_one_program_serves_both_branches():
    choose = flambeau.compile(lambda x: cond(x > 0, lambda x: x + 1, lambda x: x - 1, (x,)))
    assert [float(choose(flambeau.tensor(each))) for each in (1.0, -1.0)] == [2.0, -2.0]
    assert choose.program_count == 1


def test_cond_takes_a_structure_and_gives_one():
    def choose(x, y):
        operands = ({"x": x}, [y])
        return cond(
            x.sum() > 0,
            lambda first, second: {"sum": first["x"] + second[0]},
            lambda first, second: {"sum": first["x"] - second[0]},
            operands,
        )

    for function in both(choose):
        found = function(flambeau.ones(2), flambeau.full((2,), 3.0))
        assert found["sum"].tolist() == [4.0, 4.0]


def test_cond_inside_cond_and_second_derivatives():
    def nested(x):
        return cond(
            x > 0,
            lambda x: cond(x > 1, lambda x: x**3, lambda x: x**2, (x,)),
            lambda x: -x,
            (x,),
        )

    def second(x):
        (first,) = flambeau.autograd.grad(nested(x), x, create_graph=True)
        return flambeau.autograd.grad(first, x)[0]

    for function in both(second):
        assert float(function(flambeau.tensor(2.0, requires_grad=True))) == 12.0
        assert float(function(flambeau.tensor(0.5, requires_grad=True))) == 2.0


def test_cond_maps_over_examples():
    def choose(x):
        return cond(x > 0, lambda x: x * 2, lambda x: x * 10, (x,))

    found = flambeau.func.vmap(choose)(flambeau.tensor([1.0, -1.0]))
    assert found.tolist() == [2.0, -10.0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((True, 1, abs), "Expect both branches to be callable"),
        ((flambeau.ones(2), abs, abs), "single-element tensor"),
        (("yes", abs, abs), "Expected pred to be bool"),
        ((flambeau.tensor(True), abs, abs, (1,)), "Expect operands to be a tuple"),
    ],
)
def test_cond_refuses(arguments, message):
    with pytest.raises(RuntimeError, match=message):
        cond(*arguments)


def test_branches_of_a_program_give_the_same_kind():
    choose = flambeau.compile(
        lambda x: cond(x.sum() > 0, lambda x: x.sum(), lambda x: x, (x,)), fullgraph=True
    )
    with pytest.raises(RuntimeError, match="same metadata but found"):
        choose(flambeau.ones(2))


@pytest.mark.parametrize("what", ["draws random numbers", "writes in place"])
def test_a_branch_with_effects_cannot_become_a_program(what):
    outside = flambeau.zeros(2)

    def branch(x):
        return x + flambeau.rand(2) if what == "draws random numbers" else outside.add_(x)

    def choose(x):
        return cond(x.sum() > 0, branch, lambda x: x.clone(), (x,))

    with pytest.raises(CompileError, match=what):
        flambeau.compile(choose, fullgraph=True)(flambeau.ones(2))
    with pytest.warns(UserWarning, match="runs eagerly"):
        found = flambeau.compile(choose, fullgraph=False)(flambeau.ones(2))
    assert bool((found >= 1).all())


def test_while_loop_goes_on_as_long_as_a_value_says():
    step = flambeau.full((2,), 0.5)

    def count(x, limit):
        return while_loop(lambda i, x: x.sum() < limit, lambda i, x: (i + 1, x + step), (0, x))

    for function in both(count):
        for limit, rounds in ((3.0, 3), (5.0, 5)):
            number, total = function(flambeau.zeros(2), flambeau.tensor(limit))
            assert int(number) == rounds
            assert total.tolist() == [rounds * 0.5] * 2


def test_a_loop_that_numbers_bound_has_gradients_in_a_program():
    def power(x):
        return while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * x), (0, x))[1]

    for function in both(power):
        x = flambeau.tensor(1.5, requires_grad=True)
        function(x).backward()
        assert float(x.grad) == pytest.approx(8 * 1.5**7)


def test_a_loop_of_unknown_length_refuses_gradients():
    weight = nn.Parameter(flambeau.ones(()))

    def grow(x):
        return while_loop(lambda x: x < 10, lambda x: (x * 2 * weight,), (x,))[0]

    assert float(grow(flambeau.tensor(1.0))) == 16.0
    with pytest.raises(CompileError, match="no gradients in a compiled function"):
        flambeau.compile(grow, fullgraph=True)(flambeau.tensor(1.0))
    with flambeau.no_grad():
        assert float(flambeau.compile(grow, fullgraph=True)(flambeau.tensor(1.0))) == 16.0


def test_while_loop_keeps_the_kind_of_what_it_carries():
    for body in (lambda x: (x.double(),), lambda x: (x, x), lambda x: (x[None],)):
        with pytest.raises(RuntimeError, match="same metadata but found"):
            while_loop(lambda x: True, body, (flambeau.ones(2),))


@pytest.mark.parametrize("reverse", [False, True])
def test_scan_carries_and_collects(reverse):
    weight = nn.Parameter(flambeau.tensor([2.0, 3.0]))

    def run(x, xs):
        return scan(lambda carry, x: (carry * weight + x, carry - x), x, xs, dim=1, reverse=reverse)

    found = []
    for function in both(run):
        weight.grad = None
        x = flambeau.ones(2, requires_grad=True)
        xs = flambeau.arange(6.0).reshape(2, 3).requires_grad_()
        last, collected = function(x, xs)
        assert collected.shape == (2, 3)
        (last.sum() + (collected**2).sum()).backward()
        found.append([last, collected, x.grad, xs.grad, weight.grad])
    flambeau.testing.assert_close(found[0], found[1])


def test_map_gives_what_a_function_gives_for_each_slice():
    def run(xs, factor):
        return map(lambda pair, factor: pair[0] * pair[1] + factor, xs, factor)

    for function in both(run):
        xs = (flambeau.arange(3.0), flambeau.ones(3))
        assert function(xs, flambeau.tensor(2.0)).tolist() == [2.0, 3.0, 4.0]


def test_scan_and_map_refuse():
    with pytest.raises(RuntimeError, match="one length along dimension 0"):
        map(abs, (flambeau.ones(2), flambeau.ones(3)))
    with pytest.raises(RuntimeError, match="not 0"):
        map(abs, flambeau.ones(0, 3))
    with pytest.raises(RuntimeError, match="only consist of tensors"):
        map(abs, [1.0])
    with pytest.raises(RuntimeError, match="init must only contain tensors"):
        scan(lambda carry, x: (carry, x), 1.0, flambeau.ones(2))
