"""Steps over many parameters."""

import pytest

import flambeau
from flambeau import compiler, nn, optim
from flambeau.core.programs.first_gear import is_possible

KINDS = {
    "SGD": lambda params: optim.SGD(params, lr=0.1, momentum=0.9),
    "Adam": lambda params: optim.Adam(params, lr=0.1, amsgrad=True),
    "AdamW": lambda params: optim.AdamW(params, lr=0.1),
    "RMSprop": lambda params: optim.RMSprop(params, lr=0.1, momentum=0.5),
}


def stepped(make, shapes, steps):
    """The parameters after some steps; the gradient of each is a function of its number."""
    params = [
        nn.Parameter(flambeau.arange(1.0, 1 + length).sin() + number)
        for number, length in enumerate(shapes)
    ]
    optimizer = make(params)
    for step in range(steps):
        for number, each in enumerate(params):
            each.grad = flambeau.full_like(each, 1.0 + 0.01 * number + step)
        optimizer.step()
    return [each.tolist() for each in params]


@pytest.mark.skipif(not is_possible(), reason="nothing is evaluated on this machine")
@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
def test_the_first_steps_of_many_parameters_need_no_program(make):
    def count():
        found = compiler.stats()["by_name"].get("optimizer_step", {})
        return found.get("compiled", 0) + found.get("loaded", 0)

    before = count()
    # Equal shapes share a rule; sixty of one, some of others.
    shapes = [3] * 60 + [5, 7] * 10
    with compiler.gears(interpret=True):
        many = stepped(make, shapes, 2)
    assert count() == before
    with compiler.gears(interpret=False, fuse=False):
        expected = stepped(make, shapes, 2)
    assert count() > before
    for one, other in zip(many, expected, strict=True):
        assert one == pytest.approx(other, rel=1e-5)
