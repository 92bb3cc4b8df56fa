"""Learning rate schedulers against PyTorch's, for their whole course and to the last bit."""

import copy
import inspect
import warnings

import pytest
import torch

import flambeau
from flambeau import optim

COURSE = 25


class Halving:
    """A callable object, whose attributes are saved where a function's are not."""

    def __init__(self, every=2):
        self.every = every

    def __call__(self, x):
        return 0.5 ** (x // self.every)


def scheduler(name, **options):
    return lambda lib, optimizer: getattr(lib.optim.lr_scheduler, name)(optimizer, **options)


def sequence(lib, optimizer):
    s = lib.optim.lr_scheduler
    parts = [
        s.ConstantLR(optimizer, factor=0.1, total_iters=2),
        s.ExponentialLR(optimizer, gamma=0.9),
        s.CosineAnnealingLR(optimizer, T_max=5),
    ]
    return s.SequentialLR(optimizer, parts, milestones=[3, 9])


def nested_sequence(lib, optimizer):
    s = lib.optim.lr_scheduler
    inner = s.SequentialLR(
        optimizer, [s.LinearLR(optimizer), s.StepLR(optimizer, step_size=3)], milestones=[4]
    )
    return s.SequentialLR(
        optimizer, [inner, s.CosineAnnealingWarmRestarts(optimizer, T_0=4)], milestones=[12]
    )


def chain(lib, optimizer):
    s = lib.optim.lr_scheduler
    return s.ChainedScheduler(
        [
            s.ConstantLR(optimizer, factor=0.1, total_iters=2),
            s.ExponentialLR(optimizer, gamma=0.9),
            s.MultiStepLR(optimizer, milestones=[3, 8]),
        ]
    )


CASES = {
    "LambdaLR": scheduler("LambdaLR", lr_lambda=lambda epoch: 0.95**epoch),
    "LambdaLR, one per group": scheduler(
        "LambdaLR", lr_lambda=[lambda epoch: epoch // 30, lambda epoch: 0.95**epoch]
    ),
    "LambdaLR, object": scheduler("LambdaLR", lr_lambda=Halving(3)),
    "MultiplicativeLR": scheduler("MultiplicativeLR", lr_lambda=lambda epoch: 0.95),
    "MultiplicativeLR, object": scheduler("MultiplicativeLR", lr_lambda=Halving(9)),
    "StepLR": scheduler("StepLR", step_size=3),
    "StepLR, gamma": scheduler("StepLR", step_size=1, gamma=0.7),
    "MultiStepLR": scheduler("MultiStepLR", milestones=[2, 5, 5, 9], gamma=0.3),
    "ConstantLR": scheduler("ConstantLR"),
    "ConstantLR, options": scheduler("ConstantLR", factor=0.2, total_iters=7),
    "LinearLR": scheduler("LinearLR"),
    "LinearLR, down": scheduler("LinearLR", start_factor=0.9, end_factor=0.1, total_iters=11),
    "ExponentialLR": scheduler("ExponentialLR", gamma=0.9),
    "PolynomialLR": scheduler("PolynomialLR"),
    "PolynomialLR, power": scheduler("PolynomialLR", total_iters=9, power=0.7),
    "CosineAnnealingLR": scheduler("CosineAnnealingLR", T_max=4, eta_min=0.01),
    "CosineAnnealingLR, long": scheduler("CosineAnnealingLR", T_max=20),
    "CosineAnnealingWarmRestarts": scheduler("CosineAnnealingWarmRestarts", T_0=3),
    "CosineAnnealingWarmRestarts, growing": scheduler(
        "CosineAnnealingWarmRestarts", T_0=2, T_mult=2, eta_min=0.01
    ),
    "CyclicLR": scheduler("CyclicLR", base_lr=0.1, max_lr=1.0, step_size_up=4),
    "CyclicLR, triangular2": scheduler(
        "CyclicLR",
        base_lr=[0.1, 0.2],
        max_lr=[1.0, 2.0],
        step_size_up=4,
        step_size_down=3,
        mode="triangular2",
        base_momentum=0.5,
        max_momentum=0.7,
    ),
    "CyclicLR, exp_range": scheduler(
        "CyclicLR", base_lr=0.1, max_lr=1.0, step_size_up=4, mode="exp_range", gamma=0.9
    ),
    "CyclicLR, object": scheduler(
        "CyclicLR", base_lr=0.1, max_lr=1.0, step_size_up=4, scale_fn=Halving(1)
    ),
    "CyclicLR, iterations": scheduler(
        "CyclicLR",
        base_lr=0.1,
        max_lr=1.0,
        step_size_up=4,
        scale_fn=Halving(5),
        scale_mode="iterations",
        cycle_momentum=False,
    ),
    "OneCycleLR": scheduler("OneCycleLR", max_lr=0.5, total_steps=COURSE),
    "OneCycleLR, linear": scheduler(
        "OneCycleLR", max_lr=[0.5, 0.7], epochs=5, steps_per_epoch=5, anneal_strategy="linear"
    ),
    "OneCycleLR, three phases": scheduler(
        "OneCycleLR",
        max_lr=0.5,
        total_steps=COURSE,
        three_phase=True,
        pct_start=0.4,
        div_factor=10.0,
        final_div_factor=100.0,
        base_momentum=0.5,
    ),
    "SequentialLR": sequence,
    "SequentialLR, nested": nested_sequence,
    "ChainedScheduler": chain,
}


# A sequence in a sequence steps before the optimizer when it is made, and both libraries say so.
nested_ones_step_early = pytest.mark.filterwarnings("ignore:.*optimizer.step:UserWarning")


def optimizer_of(lib, kind="SGD", lr=0.7):
    options = {"momentum": 0.9} if kind == "SGD" else {}
    groups = [
        {"params": [lib.zeros(2, requires_grad=True)], "lr": 0.3},
        {"params": [lib.zeros(1, requires_grad=True)]},
    ]
    return getattr(lib.optim, kind)(groups, lr=lr, **options)


def numbers(optimizer):
    return [
        (group["lr"], group.get("momentum"), group.get("betas")) for group in optimizer.param_groups
    ]


def walk(lib, make, kind="SGD", steps=COURSE - 1):
    optimizer = optimizer_of(lib, kind)
    chosen = make(lib, optimizer)
    course = [numbers(optimizer)]
    for _ in range(steps):
        optimizer.step()
        chosen.step()
        course.append(numbers(optimizer))
        assert chosen.get_last_lr() == [group["lr"] for group in optimizer.param_groups]
    return course, chosen


def plain_state(scheduler):
    """A scheduler's state without the functions it holds."""
    return {
        key: [plain_state_dict(each) for each in value] if key == "_schedulers" else value
        for key, value in plain_state_dict(scheduler.state_dict()).items()
    }


def plain_state_dict(state):
    return {key: value for key, value in state.items() if key != "optimizer"}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("kind", ["SGD", "Adam"])
@nested_ones_step_early
def test_the_whole_course_is_pytorchs(case, kind):
    theirs, their_scheduler = walk(torch, CASES[case], kind)
    ours, our_scheduler = walk(flambeau, CASES[case], kind)
    assert ours == theirs
    assert plain_state(our_scheduler) == plain_state(their_scheduler)


@pytest.mark.parametrize("case", CASES)
@nested_ones_step_early
def test_a_state_of_pytorch_is_continued(case):
    theirs = optimizer_of(torch)
    their_scheduler = CASES[case](torch, theirs)
    for _ in range(6):
        theirs.step()
        their_scheduler.step()
    ours = optimizer_of(flambeau)
    our_scheduler = CASES[case](flambeau, ours)
    ours.load_state_dict(copy.deepcopy(theirs.state_dict()))
    state = copy.deepcopy(their_scheduler.state_dict())
    kept = copy.deepcopy(state)
    our_scheduler.load_state_dict(state)
    assert plain_state_dict(state) == plain_state_dict(kept)
    for _ in range(12):
        theirs.step()
        their_scheduler.step()
        ours.step()
        our_scheduler.step()
        assert numbers(ours) == numbers(theirs)


EPOCH_CASES = [
    case
    for case in CASES
    if not case.startswith(("SequentialLR", "ChainedScheduler", "OneCycleLR"))
]


@pytest.mark.parametrize("case", EPOCH_CASES)
def test_a_given_epoch_uses_the_closed_form(case):
    results = []
    for lib in (flambeau, torch):
        optimizer = optimizer_of(lib)
        chosen = CASES[case](lib, optimizer)
        optimizer.step()
        course = []
        for epoch in (3, 1, 12, 7):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                chosen.step(epoch)
            course.append((numbers(optimizer), [each.category for each in caught]))
        results.append(course)
    assert results[0] == results[1]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"mode": "max", "threshold": 0.1, "threshold_mode": "abs", "patience": 2},
        {"mode": "max", "patience": 1, "cooldown": 3, "factor": 0.5},
        {"patience": 0, "threshold_mode": "abs", "min_lr": 0.01},
        {"patience": 0, "min_lr": [0.1, 0.2], "eps": 1e-2},
    ],
)
def test_plateaus_are_found_as_in_pytorch(options):
    metrics = [5.0, 4.0, 4.0, 4.1, 3.9999, 3.0, 3.0, 3.0, 3.2, 7.0, 7.05, 7.2, 2.0, 2.0, 2.0, 2.0]
    results = []
    for lib in (flambeau, torch):
        optimizer = optimizer_of(lib)
        chosen = lib.optim.lr_scheduler.ReduceLROnPlateau(optimizer, **options)
        course = []
        for value in metrics * 2:
            optimizer.step()
            chosen.step(lib.tensor(value, dtype=lib.float64))
            course.append((numbers(optimizer), chosen.get_last_lr(), chosen.in_cooldown))
        state = {key: value for key, value in chosen.state_dict().items() if key != "optimizer"}
        results.append((course, state))
    assert results[0] == results[1]


@pytest.mark.parametrize("case", ["StepLR", "LinearLR", "CosineAnnealingLR", "OneCycleLR"])
def test_a_learning_rate_that_is_a_tensor_is_changed_in_place(case):
    courses = []
    for lib in (flambeau, torch):
        rate = lib.tensor(0.7)
        param = lib.zeros(2, requires_grad=True)
        optimizer = lib.optim.SGD([param], lr=rate, momentum=0.9)
        if case == "OneCycleLR":
            optimizer.param_groups[0]["lr"] = rate
        chosen = CASES[case](lib, optimizer)
        course = [rate.item()]
        for _ in range(8):
            optimizer.step()
            chosen.step()
            course.append(rate.item())
        assert optimizer.param_groups[0]["lr"] is rate
        courses.append(course)
    assert courses[0] == pytest.approx(courses[1], rel=1e-6)


INVALID = {
    "no optimizer": lambda s, o: s.StepLR("optimizer", 3),
    "no optimizer for a cycle": lambda s, o: s.OneCycleLR("optimizer", 0.1, total_steps=3),
    "no initial rate": lambda s, o: s.StepLR(o, 3, last_epoch=4),
    "too few functions": lambda s, o: s.LambdaLR(o, [lambda epoch: 1.0]),
    "too many functions": lambda s, o: s.MultiplicativeLR(o, [lambda epoch: 1.0] * 3),
    "no function": lambda s, o: s.MultiplicativeLR(o, 0.5),
    "factor above 1": lambda s, o: s.ConstantLR(o, factor=1.1),
    "start factor 0": lambda s, o: s.LinearLR(o, start_factor=0.0),
    "end factor": lambda s, o: s.LinearLR(o, end_factor=1.2),
    "T_0": lambda s, o: s.CosineAnnealingWarmRestarts(o, T_0=0),
    "T_mult": lambda s, o: s.CosineAnnealingWarmRestarts(o, T_0=1, T_mult=0.5),
    "eta_min": lambda s, o: s.CosineAnnealingWarmRestarts(o, T_0=1, eta_min="low"),
    "mode": lambda s, o: s.CyclicLR(o, 0.1, 1.0, mode="square"),
    "bounds": lambda s, o: s.CyclicLR(o, [0.1], 1.0),
    "length": lambda s, o: s.OneCycleLR(o, 0.1),
    "total_steps": lambda s, o: s.OneCycleLR(o, 0.1, total_steps=0),
    "epochs": lambda s, o: s.OneCycleLR(o, 0.1, epochs=-1, steps_per_epoch=3),
    "steps_per_epoch": lambda s, o: s.OneCycleLR(o, 0.1, epochs=1, steps_per_epoch=1.5),
    "pct_start": lambda s, o: s.OneCycleLR(o, 0.1, total_steps=5, pct_start=1.3),
    "strategy": lambda s, o: s.OneCycleLR(o, 0.1, total_steps=5, anneal_strategy="steps"),
    "plateau factor": lambda s, o: s.ReduceLROnPlateau(o, factor=1.0),
    "plateau mode": lambda s, o: s.ReduceLROnPlateau(o, mode="mean"),
    "plateau threshold mode": lambda s, o: s.ReduceLROnPlateau(o, threshold_mode="both"),
    "plateau bounds": lambda s, o: s.ReduceLROnPlateau(o, min_lr=[0.1]),
    "no schedulers": lambda s, o: s.SequentialLR(o, [], []),
    "milestones": lambda s, o: s.SequentialLR(o, [s.StepLR(o, 1)], [3]),
    "no scheduler": lambda s, o: s.SequentialLR(o, [s.StepLR(o, 1), 3], [3]),
    "plateau in sequence": lambda s, o: s.SequentialLR(o, [s.ReduceLROnPlateau(o)], []),
    "nothing to chain": lambda s, o: s.ChainedScheduler([]),
    "plateau in chain": lambda s, o: s.ChainedScheduler([s.ReduceLROnPlateau(o)]),
}


@pytest.mark.parametrize("case", INVALID)
def test_wrong_arguments_raise_as_in_pytorch(case):
    make = INVALID[case]
    with pytest.raises(Exception) as expected:  # noqa: PT011, the type is what is asked
        make(torch.optim.lr_scheduler, optimizer_of(torch))
    optimizer = optimizer_of(flambeau)
    with pytest.raises(expected.type):
        make(optim.lr_scheduler, optimizer)


def test_schedulers_of_another_optimizer_are_refused_as_in_pytorch():
    for lib in (torch, flambeau):
        s = lib.optim.lr_scheduler
        one, other = optimizer_of(lib), optimizer_of(lib)
        with pytest.raises(ValueError, match="same optimizer"):
            s.SequentialLR(one, [s.StepLR(one, 1), s.StepLR(other, 1)], [3])
        with pytest.raises(ValueError, match="same optimizer"):
            s.ChainedScheduler([s.StepLR(one, 1), s.StepLR(other, 1)])


@pytest.mark.parametrize("name", optim.lr_scheduler.__all__)
def test_arguments_are_pytorchs(name):
    ours, theirs = (
        {
            each: (parameter.kind, parameter.default)
            for each, parameter in inspect.signature(getattr(lib, name).__init__).parameters.items()
        }
        for lib in (optim.lr_scheduler, torch.optim.lr_scheduler)
    )
    assert ours == theirs


def test_the_older_name_is_a_class_of_its_own():
    for lib in (torch, flambeau):
        s = lib.optim.lr_scheduler
        assert s._LRScheduler.__name__ == "_LRScheduler"
        assert not issubclass(s.StepLR, s._LRScheduler)


def test_every_scheduler_of_pytorch_is_here():
    assert set(torch.optim.lr_scheduler.__all__) == set(optim.lr_scheduler.__all__)
