"""A trace that fails leaves flambeau's own objects as they were; none of them keeps a tracer."""

import pytest

import flambeau
from flambeau import optim
from flambeau.compile.errors import CompileError

X = flambeau.ones(2)


class Training:
    """A step with a scaler and a scheduler, which asks for a value in the end."""

    def __init__(self):
        self.weight = flambeau.nn.Parameter(flambeau.ones(2))
        self.optimizer = optim.SGD([self.weight], lr=0.5)
        self.scheduler = optim.lr_scheduler.StepLR(self.optimizer, 1)
        self.scaler = flambeau.amp.GradScaler("cpu", init_scale=4.0, growth_interval=1)

    def step(self, x):
        self.optimizer.zero_grad()
        loss = (self.weight * x).sum()
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.scheduler.step()
        return loss

    def unscale(self, x):
        self.optimizer.zero_grad()
        self.scaler.scale((self.weight * x).sum()).backward()
        self.scaler.unscale_(self.optimizer)

    def state(self):
        return {
            "weight": self.weight.tolist(),
            "scaler": self.scaler.state_dict(),
            "between": len(self.scaler._optimizers),
            "scheduler": self.scheduler.state_dict(),
            "groups": [{**each, "params": None} for each in self.optimizer.param_groups],
        }


@pytest.mark.filterwarnings("ignore:.*runs eagerly")
@pytest.mark.parametrize("first", ["eager", "compiled"])
def test_a_step_that_cannot_be_compiled_goes_on_eagerly(first):
    expected, found = Training(), Training()
    fast = flambeau.compile(found.step, fullgraph=False)
    calls = [fast, fast, found.step, fast]
    calls = calls if first == "compiled" else [found.step, *calls]
    for call in calls:
        expected.step(X)
        call(X)
    assert found.state() == expected.state()


def test_a_refused_step_changes_nothing():
    training = Training()
    training.step(X)
    before = training.state()
    with pytest.raises(CompileError):
        flambeau.compile(training.step, fullgraph=True)(X)
    assert training.state() == before


def test_a_change_that_no_program_makes_is_refused():
    training = Training()
    training.step(X)
    before = training.state()

    @flambeau.compile(fullgraph=True)
    def run(x):
        training.unscale(x)

    with pytest.raises(CompileError, match="a method of GradScaler that keeps a tensor"):
        run(X)
    assert training.state() == before
    training.step(X)


def test_the_next_scale_is_chosen_at_each_call():
    eager, compiled = Training(), Training()

    def update(training, x):
        training.unscale(x)
        training.scaler.update()

    run = flambeau.compile(lambda x: update(compiled, x))
    for scale in (1.0, float("inf"), 1.0):
        update(eager, X * scale)
        run(X * scale)
        assert compiled.state() == eager.state()
    assert run.program_count == 1
    compiled.step(X)


class Plain:
    def __init__(self):
        self.found = None


@pytest.mark.parametrize("fullgraph", [True, False])
def test_an_attribute_that_is_set_past_the_class_is_set_at_each_call(fullgraph):
    plain = Plain()

    @flambeau.compile(fullgraph=fullgraph)
    def function(x):
        object.__setattr__(plain, "found", x * 2)
        return x

    for scale in (1.0, 2.0, 3.0):
        function(X * scale)
        assert plain.found.tolist() == [2 * scale] * 2


class Counting:
    """Keeps its number past its attributes."""

    @property
    def number(self):
        return self.__dict__.get("_number", 0)

    @number.setter
    def number(self, value):
        self.__dict__["_number"] = value


def test_what_a_property_keeps_is_put_back_by_a_call_that_fails():
    counting = Counting()

    def function(x):
        counting.number += 1
        return x * x.sum().item()

    with pytest.raises(flambeau.CompileError):
        flambeau.compile(function, fullgraph=True)(flambeau.ones(2))
    assert counting.number == 0
    flambeau.compile(function, fullgraph=False)(flambeau.ones(2))
    assert counting.number == 1


def test_a_parameter_of_a_distribution_that_is_replaced_is_seen():
    prior = flambeau.distributions.Normal(flambeau.zeros(2), flambeau.ones(2))

    def density(x):
        return prior.log_prob(x).sum() + prior.loc.sum() + prior.stddev.sum()

    run, x = flambeau.compile(density), flambeau.ones(2)
    for _ in range(2):
        assert flambeau.allclose(run(x), density(x))
        prior.loc = flambeau.ones(2) * 3
    prior.loc.add_(1)
    assert flambeau.allclose(run(x), density(x))
    prior.scale = flambeau.ones(2) * 2
    assert flambeau.allclose(run(x), density(x))
