"""Optimizers inside compiled functions: the eager result, one program, and never a stale one."""

import numpy as np
import pytest

import flambeau
from flambeau import nn, optim
from flambeau.compile import CompileError
from flambeau.optim.optimizer import Optimizer

OPTIONS = [
    (optim.SGD, {"lr": 0.1}),
    (optim.SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    (optim.SGD, {"lr": 0.1, "momentum": 0.9, "dampening": 0.5}),
    (optim.Adam, {"lr": 0.1, "amsgrad": True}),
    (optim.AdamW, {"lr": 0.1}),
    (optim.Adamax, {"lr": 0.1}),
    (optim.NAdam, {"lr": 0.1}),
    (optim.RAdam, {"lr": 0.1}),
    (optim.Adadelta, {}),
    (optim.Adagrad, {"lr": 0.1}),
    (optim.ASGD, {"lr": 0.1}),
    (optim.RMSprop, {"lr": 0.1, "momentum": 0.9, "centered": True}),
    (optim.Rprop, {"lr": 0.1}),
    (optim.Adafactor, {"lr": 0.1}),
    (optim.Muon, {"lr": 0.1}),
]
X = flambeau.tensor(np.random.default_rng(0).standard_normal((4, 3)).astype("float32"))


class Pair:
    """The same training twice, one step of it compiled."""

    def __init__(self, cls, compiled=True, **options):
        self.model = nn.Linear(3, 2, bias=cls is not optim.Muon)
        with flambeau.no_grad():
            self.model.weight.copy_(flambeau.linspace(-1.0, 1.0, 6).reshape(2, 3))
            if self.model.bias is not None:
                self.model.bias.fill_(0.5)
        self.optimizer = cls(self.model.parameters(), **options)
        self.step = flambeau.compile(self.one_step) if compiled else self.one_step

    def one_step(self, x):
        self.optimizer.zero_grad()
        loss = (self.model(x) ** 2).mean()
        loss.backward()
        self.optimizer.step()
        return loss


def both(cls, **options):
    flambeau.manual_seed(0)
    return Pair(cls, False, **options), Pair(cls, True, **options)


def assert_equal(eager, compiled):
    for one, other in zip(eager.model.parameters(), compiled.model.parameters(), strict=True):
        np.testing.assert_allclose(
            one.detach().numpy(), other.detach().numpy(), rtol=1e-5, atol=1e-6
        )
    ours, theirs = (each.optimizer.state_dict() for each in (compiled, eager))
    assert ours["param_groups"] == theirs["param_groups"]
    assert list(ours["state"]) == list(theirs["state"])
    for key, entries in theirs["state"].items():
        for name, value in entries.items():
            np.testing.assert_allclose(
                ours["state"][key][name].numpy(force=True),
                value.numpy(force=True),
                rtol=1e-4,
                atol=1e-6,
            )


def run(pair, steps=3):
    for _ in range(steps):
        for each in pair:
            each.step(X)
    assert_equal(*pair)


@pytest.mark.parametrize(
    ("cls", "options"), OPTIONS, ids=lambda each: getattr(each, "__name__", "")
)
def test_compiled_steps_are_eager_steps(cls, options):
    pair = both(cls, **options)
    run(pair, 4)
    # With dampening PyTorch's first step has another formula.
    assert pair[1].step.program_count == (2 if "dampening" in options else 1)


@pytest.mark.parametrize("cls", [optim.SGD, optim.AdamW])
def test_a_scheduler_reaches_a_compiled_step_without_a_new_program(cls, compilations):
    pair = both(cls, lr=0.5)
    run(pair, 1)
    schedulers = [optim.lr_scheduler.ExponentialLR(each.optimizer, 0.5) for each in pair]
    run(pair, 1)
    compilations.reset()
    for _ in range(3):
        for each, scheduler in zip(pair, schedulers, strict=True):
            scheduler.step()
            each.step(X)
    assert compilations.count == 0
    assert pair[1].step.program_count == 1
    assert_equal(*pair)


S = optim.lr_scheduler
SCHEDULERS = {
    "ChainedScheduler": lambda o: S.ChainedScheduler([S.ConstantLR(o), S.StepLR(o, 2)]),
    "ConstantLR": lambda o: S.ConstantLR(o, total_iters=2),
    "CosineAnnealingLR": lambda o: S.CosineAnnealingLR(o, 4),
    "CosineAnnealingWarmRestarts": lambda o: S.CosineAnnealingWarmRestarts(o, 2),
    # These two move the momentum as well.
    "CyclicLR": lambda o: S.CyclicLR(o, 0.01, 0.1, step_size_up=3),
    "OneCycleLR": lambda o: S.OneCycleLR(o, 0.1, total_steps=8),
    "ExponentialLR": lambda o: S.ExponentialLR(o, 0.5),
    "LambdaLR": lambda o: S.LambdaLR(o, lambda epoch: 0.5**epoch),
    "LinearLR": lambda o: S.LinearLR(o, total_iters=4),
    "MultiStepLR": lambda o: S.MultiStepLR(o, [1, 3]),
    "MultiplicativeLR": lambda o: S.MultiplicativeLR(o, lambda epoch: 0.5),
    "PolynomialLR": lambda o: S.PolynomialLR(o, 6),
    "ReduceLROnPlateau": lambda o: S.ReduceLROnPlateau(o, patience=0, threshold=1e9),
    "SequentialLR": lambda o: S.SequentialLR(o, [S.ConstantLR(o), S.ExponentialLR(o, 0.5)], [2]),
    "StepLR": lambda o: S.StepLR(o, 2),
}


def test_there_is_an_example_of_every_scheduler():
    assert SCHEDULERS.keys() == {*S.__all__} - {"LRScheduler"}


@pytest.mark.parametrize("name", SCHEDULERS)
def test_no_scheduler_needs_a_new_program(name, compilations):
    pair = both(optim.SGD, lr=0.5, momentum=0.9)
    schedulers = [SCHEDULERS[name](each.optimizer) for each in pair]
    rates = set()
    for number in range(6):
        for each, scheduler in zip(pair, schedulers, strict=True):
            loss = each.step(X)
            scheduler.step(*([loss.item()] if name == "ReduceLROnPlateau" else []))
        rates.add(pair[1].optimizer.param_groups[0]["lr"])
        if number == 1:
            compilations.reset()
    assert len(rates) > 1
    assert_equal(*pair)
    assert pair[1].step.program_count == 1
    assert compilations.count == 0


def switch(name, value):
    def change(each):
        each.optimizer.param_groups[0][name] = value

    return change


def add_group(each):
    extra = flambeau.ones(2, requires_grad=True)
    extra.grad = flambeau.ones(2)
    each.optimizer.add_param_group({"params": [extra], "lr": 0.25})


def load(each):
    state = each.optimizer.state_dict()
    for entries in state["state"].values():
        for name in entries:
            entries[name] = entries[name] * 2 + 1
    each.optimizer.load_state_dict(state)


def replace_state(each):
    param = each.model.weight
    name = next(name for name in each.optimizer.state[param] if name != "step")
    each.optimizer.state[param][name] = flambeau.ones(2, 3)


def drop_parameter(each):
    del each.optimizer.param_groups[0]["params"][1]
    del each.optimizer.state[each.model.bias]


def replace_data(each):
    each.model.weight.data = flambeau.ones(2, 3)


def tensor_rate(each):
    each.optimizer.param_groups[0]["lr"] = flambeau.tensor(0.25)


CHANGES = {
    "learning rate": switch("lr", 0.7),
    "weight decay on": switch("weight_decay", 0.5),
    "maximize": switch("maximize", True),
    "tensor as rate": tensor_rate,
    "added group": add_group,
    "loaded state": load,
    "replaced state": replace_state,
    "dropped parameter": drop_parameter,
    "replaced data": replace_data,
    "cleared state": lambda each: each.optimizer.state.clear(),
}


@pytest.mark.parametrize(
    ("cls", "options"), [(optim.SGD, {"lr": 0.1, "momentum": 0.9}), (optim.AdamW, {"lr": 0.1})]
)
@pytest.mark.parametrize("what", CHANGES)
def test_what_changes_between_calls_shows_in_the_next(what, cls, options):
    pair = both(cls, **options)
    run(pair, 2)
    for each in pair:
        CHANGES[what](each)
    run(pair, 2)


def with_rates():
    """Two trainings whose learning rates are tensors, after some steps; and these."""
    rates = flambeau.tensor(0.1), flambeau.tensor(0.1)
    pair = both(optim.SGD)
    for each, rate in zip(pair, rates, strict=True):
        each.optimizer.param_groups[0]["lr"] = rate
    run(pair)
    return pair, rates


def test_a_rate_that_is_a_tensor_is_an_input():
    pair, rates = with_rates()
    for rate in rates:
        rate.fill_(0.5)
    run(pair)
    assert pair[1].step.program_count == 1


def test_a_rate_that_is_a_tensor_may_be_given_other_data():
    pair, rates = with_rates()
    for rate in rates:
        rate.data = flambeau.tensor(0.5)
    run(pair)


def test_hooks_of_a_compiled_step_run_while_tracing_and_are_watched():
    pair = both(optim.SGD, lr=0.1)
    run(pair, 2)

    def halve(optimizer, args, kwargs):
        for group in optimizer.param_groups:
            for param in group["params"]:
                param.grad.mul_(0.5)

    handles = [each.optimizer.register_step_pre_hook(halve) for each in pair]
    run(pair, 2)
    for handle in handles:
        handle.remove()
    run(pair, 2)
    assert pair[1].step.program_count == 2


def test_gradients_from_before_are_not_part_of_a_program_that_resets_them():
    pair = both(optim.SGD, lr=0.1)
    run(pair, 1)
    for each in pair:
        for param in each.model.parameters():
            param.grad = None
    run(pair, 1)
    assert pair[1].step.program_count == 1


def test_two_steps_in_one_program():
    params = flambeau.ones(2, requires_grad=True), flambeau.ones(2, requires_grad=True)
    optimizers = [optim.SGD([each], lr=0.1, momentum=0.9, dampening=0.5) for each in params]

    def twice(param, optimizer):
        for _ in range(2):
            optimizer.zero_grad()
            (param**2).sum().backward()
            optimizer.step()

    compiled = flambeau.compile(lambda: twice(params[1], optimizers[1]))
    for _ in range(2):
        twice(params[0], optimizers[0])
        compiled()
    np.testing.assert_allclose(params[0].detach().numpy(), params[1].detach().numpy(), rtol=1e-6)


def test_gradients_can_be_accumulated_over_compiled_calls():
    results = []
    for wrap in (lambda function: function, flambeau.compile):
        model = nn.Linear(3, 1, bias=False)
        with flambeau.no_grad():
            model.weight.fill_(0.5)
        optimizer = optim.Adam(model.parameters(), lr=0.1)
        backward = wrap(lambda x, model=model: (model(x) ** 2).mean().backward())

        def finish(optimizer=optimizer):
            optimizer.step()
            optimizer.zero_grad()

        finish = wrap(finish)
        for _ in range(3):
            backward(X)
            backward(X * 2)
            finish()
        assert model.weight.grad is None
        results.append(model.weight.detach().numpy())
    np.testing.assert_allclose(*results, rtol=1e-5)


@pytest.mark.parametrize("how", ["scheduler", "option", "tensor"])
def test_a_rate_cannot_be_set_inside(how):
    param = flambeau.ones(2, requires_grad=True)
    rate = flambeau.tensor(0.5) if how == "tensor" else 0.5
    optimizer = optim.SGD([param], lr=rate)
    scheduler = optim.lr_scheduler.ExponentialLR(optimizer, 0.5)

    def step():
        param.sum().backward()
        optimizer.step()
        if how == "option":
            optimizer.param_groups[0]["lr"] = 0.25
        else:
            scheduler.step()

    with pytest.raises(CompileError, match=r"outside the compiled function|call it outside"):
        flambeau.compile(step, fullgraph=True)()
    assert float(optimizer.param_groups[0]["lr"]) == 0.5
    assert param.tolist() == [1.0, 1.0]


def test_lbfgs_says_what_to_compile_instead():
    param = flambeau.ones(2, requires_grad=True)
    optimizer = optim.LBFGS([param])
    with pytest.raises(CompileError, match="closure"):
        flambeau.compile(lambda: optimizer.step(lambda: (param**2).sum()), fullgraph=True)()


def test_a_scheduler_knows_that_a_compiled_step_has_run():
    pair = Pair(optim.SGD, lr=0.5)
    pair.step(X)
    scheduler = optim.lr_scheduler.ExponentialLR(pair.optimizer, 0.5)
    pair.step(X)
    scheduler.step()
    assert pair.optimizer.param_groups[0]["lr"] == 0.25


def test_an_error_in_the_trace_leaves_the_optimizer_usable():
    param = flambeau.ones(2, requires_grad=True)
    optimizer = optim.Adam([param], lr=0.5)

    def step():
        param.sum().backward()
        optimizer.step()
        if param.sum() > 0:
            optimizer.zero_grad()

    with pytest.raises(CompileError):
        flambeau.compile(step, fullgraph=True)()
    assert param.grad is None
    param.grad = flambeau.ones(2)
    optimizer.step()
    assert param.tolist() == pytest.approx([0.5, 0.5])
    assert optimizer.state[param]["step"].item() == 1.0


# Optimizers written with tensor operators


class HandWritten(Optimizer):
    def __init__(self, params, lr=0.5, momentum=0.5):
        super().__init__(params, {"lr": lr, "momentum": momentum})

    @flambeau.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for param in group["params"]:
                state = self.state[param]
                if not state:
                    state["buffer"] = flambeau.zeros_like(param)
                state["buffer"].mul_(group["momentum"]).add_(param.grad)
                param.sub_(state["buffer"] * group["lr"])


def test_a_hand_written_optimizer_is_compiled_once_its_state_exists():
    pair = both(HandWritten)
    run(pair, 2)
    for each in pair:
        each.optimizer.param_groups[0]["lr"] = 0.25
    run(pair, 2)
    for each in pair:
        load(each)
    run(pair, 2)
    for each in pair:
        each.optimizer.param_groups[0]["momentum"] = 0.0
    run(pair, 2)


class Counting(Optimizer):
    """Counts its steps in Python, and makes the count before the rest of its state."""

    def __init__(self, params, lr=0.5):
        super().__init__(params, {"lr": lr})

    @flambeau.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for param in group["params"]:
                state = self.state[param]
                if len(state) == 0:
                    state["step"] = 0
                    state["mean"] = flambeau.zeros_like(param)
                state["step"] += 1
                state["mean"].lerp_(param.grad, 0.1)
                param.sub_(state["mean"] * group["lr"] / (1 - 0.9 ** state["step"]))


def test_a_step_counted_in_python_is_counted_once_a_call():
    eager, compiled = both(Counting)
    for _ in range(3):
        assert eager.step(X).item() == pytest.approx(compiled.step(X).item(), rel=1e-5)
    counts = [entries["step"] for entries in compiled.optimizer.state.values()]
    assert counts == [3, 3]


class Assigning(HandWritten):
    @flambeau.no_grad()
    def step(self, closure=None):
        for param in self.param_groups[0]["params"]:
            state = self.state[param]
            state["buffer"] = state.get("buffer", 0.0) * 0.5 + param.grad
            state["last"] = state["buffer"]
            state["count"] = state.get("count", flambeau.tensor(0.0)) + 1
            param.sub_(state["buffer"] / state["count"])


def test_state_that_is_assigned_is_compiled_once():
    eager, compiled = both(Assigning)
    for i in range(4):
        assert eager.step(X).item() == pytest.approx(compiled.step(X).item(), rel=1e-5)
        for each in (eager, compiled):
            for state in each.optimizer.state.values():
                assert state["count"].item() == i + 1
                # Both are one tensor, or share its elements.
                state["last"].mul_(0.5)
                assert state["buffer"].tolist() == state["last"].tolist()
    assert compiled.step.program_count <= 2


def shift(state, param):
    if not state:
        state["now"] = state["before"] = param.grad.clone()
    else:
        state["before"] = state["now"]
        state["now"] = param.grad * 1.5
    return state["now"] + 0.5 * state["before"]


def replace_one_of_two_names(state, param):
    if not state:
        state["now"] = state["before"] = param.grad.clone()
    else:
        half = state["now"] * 0.5
        state["now"] = param.grad * 1.5
        state["before"] = half
    return state["now"] + 0.5 * state["before"]


def swap(state, param):
    if not state:
        state["one"], state["other"] = param.grad.clone(), param.grad * 2
    else:
        state["one"], state["other"] = state["other"], state["one"]
    return state["one"] + 0.5 * state["other"]


def assign_a_parameter(state, param):
    state["itself"] = param if "itself" not in state else state["itself"].detach()
    return state["itself"]


def assign_another_shape(state, param):
    state["grown"] = param.grad[:1] if not state else flambeau.cat([state["grown"], param.grad])
    return state["grown"].sum(0)


# State that shares the elements of a parameter is written eagerly.
@pytest.mark.filterwarnings("ignore:.*runs eagerly:flambeau.compile.errors.CompileWarning")
@pytest.mark.parametrize(
    "change", [shift, replace_one_of_two_names, swap, assign_a_parameter, assign_another_shape]
)
def test_state_is_assigned_as_eagerly(change):
    class Changing(HandWritten):
        @flambeau.no_grad()
        def step(self, closure=None):
            for param in self.param_groups[0]["params"]:
                param.sub_(0.1 * change(self.state[param], param))

    eager, compiled = both(Changing)
    for _ in range(5):
        assert eager.step(X).item() == pytest.approx(compiled.step(X).item(), rel=1e-5)
        assert_equal(eager, compiled)


class ReplacingDictionaries(HandWritten):
    @flambeau.no_grad()
    def step(self, closure=None):
        for param in self.param_groups[0]["params"]:
            before = self.state[param].get("mean", 0.0)
            self.state[param] = {"mean": before * 0.5 + param.grad}
            param.sub_(self.state[param]["mean"])


def test_a_state_that_is_replaced_by_a_dictionary():
    eager, compiled = both(ReplacingDictionaries)
    for _ in range(4):
        assert eager.step(X).item() == pytest.approx(compiled.step(X).item(), rel=1e-5)
        assert_equal(eager, compiled)


class AssigningGradients(HandWritten):
    def step(self, closure=None):
        for param in self.param_groups[0]["params"]:
            self.state[param]["buffer"] = param * 2
            with flambeau.no_grad():
                param.sub_(param.grad)


def test_state_with_a_history_has_it_after_a_compiled_call():
    eager, compiled = both(AssigningGradients)
    for _ in range(3):
        for each in (eager, compiled):
            each.step(X)
            each.optimizer.zero_grad()
            sum(state["buffer"].sum() for state in each.optimizer.state.values()).backward()
            assert each.model.weight.grad.tolist() == [[2.0] * 3] * 2
        assert_equal(eager, compiled)


class Failing(HandWritten):
    fails = False

    @flambeau.no_grad()
    def step(self, closure=None):
        for param in self.param_groups[0]["params"]:
            state = self.state[param]
            state["buffer"] = state.get("buffer", 0.0) * 0.5 + param.grad
            if self.fails:
                state["extra"] = self
                raise KeyError("no")


def test_state_is_as_before_when_a_trace_fails():
    _, compiled = both(Failing)
    compiled.step = flambeau.compile(compiled.one_step, fullgraph=True)
    compiled.step(X)
    before = {key: dict(entries) for key, entries in compiled.optimizer.state.items()}
    compiled.optimizer.fails = True
    with pytest.raises(KeyError):
        compiled.step(X)
    for key, entries in compiled.optimizer.state.items():
        assert entries.keys() == before[key].keys()
        assert entries["buffer"] is before[key]["buffer"]
        assert np.isfinite(entries["buffer"].numpy()).all()


def test_state_that_is_never_kept_is_an_error():
    model = nn.Linear(3, 2)
    optimizer = HandWritten(model.parameters())

    @flambeau.compile(fullgraph=True)
    def step():
        optimizer.zero_grad()
        model(X).sum().backward()
        optimizer.step()
        optimizer.state.clear()

    for _ in range(2):
        step()
    with pytest.raises(CompileError, match="make it once"):
        step()
    assert not optimizer.state


@pytest.mark.parametrize("read", ["zero_grad", "params"])
def test_reading_a_group_freezes_no_more_than_what_is_read(read):
    param = flambeau.ones(2, requires_grad=True)
    optimizer = optim.SGD([param], lr=0.5)
    param.grad = flambeau.zeros(2)

    @flambeau.compile
    def step():
        if read == "zero_grad":
            optimizer.zero_grad(set_to_none=False)
        else:
            optimizer.zero_grad()
        param.sum().backward()
        for group in optimizer.param_groups:
            for each in group["params"]:
                if each.grad is not None:
                    each.grad.mul_(2)
        optimizer.step()

    for rate in (0.5, 0.25, 0.125):
        optimizer.param_groups[0]["lr"] = rate
        step()
    assert param.tolist() == [-0.75, -0.75]
    assert step.program_count == 1
    other = flambeau.ones(1, requires_grad=True)
    optimizer.add_param_group({"params": [other]})
    other.grad = flambeau.ones(1)
    step()
    assert other.grad is None or other.grad.item() == 0.0
    assert step.program_count == 2


def test_a_closure_inside_a_compiled_function():
    results = []
    for wrap in (lambda function: function, flambeau.compile):
        param = flambeau.full((2,), 2.0, requires_grad=True)
        optimizer = optim.Adam([param], lr=0.1)

        def closure(param=param, optimizer=optimizer):
            optimizer.zero_grad()
            loss = (param**2).sum()
            loss.backward()
            return loss

        step = wrap(lambda optimizer=optimizer, closure=closure: optimizer.step(closure))
        losses = [step().item() for _ in range(3)]
        results.append([*losses, *param.tolist()])
    assert results[0] == pytest.approx(results[1])


@pytest.mark.parametrize("given", ["parameter", "own"])
@pytest.mark.parametrize(
    ("cls", "options"),
    [*(each for each in OPTIONS if each[0] is not optim.Muon), (HandWritten, {})],
)
def test_an_optimizer_made_inside_begins_at_each_call(cls, options, given):
    parameter = nn.Parameter(flambeau.ones(2, 3))

    def fit(x):
        weight = parameter
        if given == "own":
            weight = flambeau.ones(2, 3, requires_grad=True)
        with flambeau.no_grad():
            weight.fill_(1.0)
        optimizer = cls([weight], **options)
        scheduler = optim.lr_scheduler.StepLR(optimizer, 1) if options else None
        for _ in range(3):
            optimizer.zero_grad()
            (x @ weight.t()).square().mean().backward()
            optimizer.step()
            if scheduler is not None:
                scheduler.step()
        return weight.detach().clone()

    run = flambeau.compile(fit)
    for scale in (1.0, 2.0, 1.0):
        np.testing.assert_allclose(
            run(X * scale).numpy(), fit(X * scale).numpy(), rtol=1e-5, atol=1e-6
        )
    assert run.program_count == 1
