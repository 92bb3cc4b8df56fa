"""What schedulers share: order of steps, resuming, saving, and users' own schedulers."""

import copy
import pickle

import pytest

import flambeau
from flambeau import optim
from flambeau.optim import lr_scheduler


def sgd(lr=1.0, groups=1, **options):
    params = [{"params": [flambeau.ones(2, requires_grad=True)]} for _ in range(groups)]
    return optim.SGD(params, lr=lr, **options)


def rates(optimizer):
    return [group["lr"] for group in optimizer.param_groups]


def test_a_scheduler_that_steps_before_its_optimizer_warns():
    scheduler = lr_scheduler.ExponentialLR(sgd(), 0.5)
    with pytest.warns(UserWarning, match=r"Call optimizer.step\(\) first"):
        scheduler.step()


def test_a_step_without_gradients_counts_as_one():
    optimizer = sgd()
    scheduler = lr_scheduler.ExponentialLR(optimizer, 0.5)
    optimizer.step()
    scheduler.step()
    assert rates(optimizer) == [0.5]


def test_a_step_before_the_scheduler_was_made_does_not_count():
    optimizer = sgd()
    optimizer.step()
    scheduler = lr_scheduler.ExponentialLR(optimizer, 0.5)
    with pytest.warns(UserWarning, match="optimizer"):
        scheduler.step()


def test_a_second_scheduler_knows_of_the_steps_before_it():
    optimizer = sgd()
    lr_scheduler.ExponentialLR(optimizer, 0.5)
    optimizer.step()
    lr_scheduler.ExponentialLR(optimizer, 0.5).step()
    assert rates(optimizer) == [0.5]


def test_get_lr_outside_of_step_warns():
    scheduler = lr_scheduler.ExponentialLR(sgd(), 0.5)
    with pytest.warns(UserWarning, match="get_last_lr"):
        assert scheduler.get_lr() == [0.5]
    assert scheduler.get_last_lr() == [1.0]


def test_a_given_epoch_warns():
    optimizer = sgd()
    scheduler = lr_scheduler.StepLR(optimizer, 2, gamma=0.5)
    optimizer.step()
    with pytest.warns(UserWarning, match="deprecated"):
        scheduler.step(5)
    assert rates(optimizer) == [0.25]


def test_training_is_resumed_with_the_number_of_the_last_epoch():
    optimizer = sgd()
    scheduler = lr_scheduler.StepLR(optimizer, 2, gamma=0.5)
    for _ in range(3):
        optimizer.step()
        scheduler.step()
    other = sgd()
    other.load_state_dict(optimizer.state_dict())
    resumed = lr_scheduler.StepLR(other, 2, gamma=0.5, last_epoch=2)
    assert resumed.last_epoch == 3
    assert rates(other) == rates(optimizer) == [0.5]
    assert resumed.base_lrs == [1.0]
    for each, owner in ((scheduler, optimizer), (resumed, other)):
        owner.step()
        each.step()
    assert rates(other) == rates(optimizer) == [0.25]


def test_without_a_first_rate_nothing_can_be_resumed():
    with pytest.raises(KeyError, match="'initial_lr'"):
        lr_scheduler.StepLR(sgd(), 2, last_epoch=3)


def test_a_users_own_scheduler():
    class Halves(lr_scheduler._LRScheduler):
        def get_lr(self):
            return [rate * 0.5**self.last_epoch for rate in self.base_lrs]

    optimizer = sgd(groups=2)
    scheduler = Halves(optimizer)
    for _ in range(2):
        optimizer.step()
        scheduler.step()
    assert rates(optimizer) == [0.25, 0.25]
    assert isinstance(scheduler, lr_scheduler.LRScheduler)


def test_a_scheduler_without_rates_says_so():
    with pytest.raises(NotImplementedError, match="get_lr"):
        lr_scheduler.LRScheduler(sgd())


def test_functions_are_not_saved_but_what_objects_hold_is():
    class Power:
        def __init__(self, base):
            self.base = base

        def __call__(self, epoch):
            return self.base**epoch

    scheduler = lr_scheduler.LambdaLR(sgd(groups=2), [lambda epoch: 1.0, Power(0.5)])
    state = scheduler.state_dict()
    assert state["lr_lambdas"] == [None, {"base": 0.5}]
    other = lr_scheduler.LambdaLR(sgd(groups=2), [lambda epoch: 1.0, Power(0.1)])
    other.load_state_dict(state)
    assert other.lr_lambdas[1].base == 0.5
    assert state["lr_lambdas"] == [None, {"base": 0.5}]


@pytest.mark.parametrize("how", [copy.deepcopy, lambda each: pickle.loads(pickle.dumps(each))])
def test_a_copy_moves_the_rates_of_its_own_optimizer(how):
    optimizer = sgd()
    scheduler = lr_scheduler.OneCycleLR(optimizer, 1.0, total_steps=10, cycle_momentum=False)
    other = how(scheduler)
    before = rates(optimizer)
    other.optimizer.step()
    other.step()
    assert rates(optimizer) == before
    assert rates(other.optimizer) != before


def test_last_rates_that_are_tensors_are_snapshots():
    optimizer = sgd(lr=flambeau.tensor(1.0))
    scheduler = lr_scheduler.ExponentialLR(optimizer, 0.5)
    before = scheduler.get_last_lr()
    optimizer.step()
    scheduler.step()
    assert before[0].item() == 1.0
    assert scheduler.get_last_lr()[0].item() == 0.5
    assert scheduler.base_lrs[0].item() == 1.0


def test_one_cycle_ends():
    optimizer = sgd()
    scheduler = lr_scheduler.OneCycleLR(optimizer, 1.0, total_steps=2, cycle_momentum=False)
    for _ in range(2):
        optimizer.step()
        scheduler.step()
    with pytest.raises(ValueError, match="Tried to step 3 times"):
        scheduler.step()


def test_a_cycle_of_momentum_needs_an_optimizer_with_momentum():
    optimizer = optim.Adagrad([flambeau.ones(2, requires_grad=True)])
    for make in (
        lambda: lr_scheduler.OneCycleLR(optimizer, 1.0, total_steps=2),
        lambda: lr_scheduler.CyclicLR(optimizer, 0.1, 1.0),
    ):
        with pytest.raises(ValueError, match="cycle_momentum=False"):
            make()


def test_a_plateau_reaches_a_group_that_was_added_later():
    optimizer = sgd()
    scheduler = lr_scheduler.ReduceLROnPlateau(optimizer, patience=0, factor=0.5, min_lr=0.1)
    optimizer.add_param_group({"params": [flambeau.ones(1, requires_grad=True)], "lr": 0.4})
    for value in (1.0, 1.0, 1.0):
        optimizer.step()
        scheduler.step(value)
    assert rates(optimizer) == [0.25, 0.1]


def test_a_plateau_with_a_list_of_lowest_rates_asks_for_one_more():
    optimizer = sgd()
    scheduler = lr_scheduler.ReduceLROnPlateau(optimizer, patience=0, min_lr=[0.1])
    optimizer.add_param_group({"params": [flambeau.ones(1, requires_grad=True)]})
    scheduler.step(1.0)
    with pytest.raises(RuntimeError, match="min_lrs"):
        scheduler.step(1.0)


SCHEDULERS = {
    "lambda": lambda o: lr_scheduler.LambdaLR(o, lambda epoch: 0.5**epoch),
    "product": lambda o: lr_scheduler.MultiplicativeLR(o, lambda epoch: 0.5),
    "constant": lambda o: lr_scheduler.ConstantLR(o, 0.5, 3),
    "restarts": lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 2, 2),
    "cycles": lambda o: lr_scheduler.CyclicLR(o, 0.1, 1, 2, 3, mode="exp_range", gamma=0.9),
    "one cycle": lambda o: lr_scheduler.OneCycleLR(o, 1.0, 12),
    "plateau": lambda o: lr_scheduler.ReduceLROnPlateau(o, patience=0, cooldown=1),
    "sequence": lambda o: lr_scheduler.SequentialLR(
        o,
        [
            lr_scheduler.ConstantLR(o, 0.1, 2),
            lr_scheduler.CosineAnnealingWarmRestarts(o, 2),
            lr_scheduler.CyclicLR(o, 0.1, 1, 2),
        ],
        [2, 5],
    ),
    "chain": lambda o: lr_scheduler.ChainedScheduler(
        [lr_scheduler.LinearLR(o, 0.1, 1, 3), lr_scheduler.CosineAnnealingWarmRestarts(o, 2)]
    ),
}


def schedule(optimizer, scheduler, first, last):
    """The rates and momenta of the steps from ``first`` to ``last``."""
    found = []
    for i in range(first, last):
        optimizer.step()
        is_plateau = isinstance(scheduler, lr_scheduler.ReduceLROnPlateau)
        scheduler.step(*[[3, 2, 2, 1, 2, 2, 2, 2, 2, 2][i]] * is_plateau)
        found.append([(group["lr"], group["momentum"]) for group in optimizer.param_groups])
    return found


@pytest.mark.parametrize("name", SCHEDULERS)
def test_resuming_in_any_order_continues_the_schedule(name):
    make = SCHEDULERS[name]
    for steps in range(7):
        optimizer = sgd(groups=2, momentum=0.9)
        scheduler = make(optimizer)
        schedule(optimizer, scheduler, 0, steps)
        saved = copy.deepcopy((optimizer.state_dict(), scheduler.state_dict()))
        expected = schedule(optimizer, scheduler, steps, steps + 3)
        for order in ("make optimizer scheduler", "make scheduler optimizer",
                      "optimizer make scheduler", "make used optimizer scheduler"):  # fmt: skip
            other = sgd(groups=2, momentum=0.9)
            for word in order.split():
                if word == "make":
                    resumed = make(other)
                elif word == "used":
                    schedule(other, resumed, 0, 2)
                else:
                    owner, state = (other, saved[0]) if word == "optimizer" else (resumed, saved[1])
                    owner.load_state_dict(copy.deepcopy(state))
            assert resumed.get_last_lr() == rates(other)
            assert schedule(other, resumed, steps, steps + 3) == expected


def test_a_rate_that_was_set_by_hand_stays():
    optimizer = sgd()
    scheduler = SCHEDULERS["constant"](optimizer)
    optimizer.param_groups[0]["lr"] = 0.25
    saved = copy.deepcopy((optimizer.state_dict(), scheduler.state_dict()))
    other = sgd()
    resumed = SCHEDULERS["constant"](other)
    other.load_state_dict(saved[0])
    resumed.load_state_dict(saved[1])
    assert rates(other) == [0.25]


def test_the_state_of_another_scheduler_is_refused():
    scheduler = SCHEDULERS["restarts"](sgd())
    with pytest.raises(ValueError, match="'T_0', which a StepLR does not have"):
        lr_scheduler.StepLR(sgd(), 2).load_state_dict(scheduler.state_dict())


@pytest.mark.parametrize("name", ["lambda", "product", "restarts", "constant"])
def test_a_group_that_was_added_begins_at_its_own_rate(name):
    optimizer = sgd()
    scheduler = SCHEDULERS[name](optimizer)
    optimizer.step()
    scheduler.step()
    before = rates(optimizer)[0]
    optimizer.add_param_group({"params": [flambeau.ones(1, requires_grad=True)], "lr": 3 * before})
    optimizer.step()
    scheduler.step()
    first, second = rates(optimizer)
    # Schedules of the first rate take that of the new group for it.
    of_first = {"lambda": 3 * before * 0.25, "restarts": 3 * before}
    assert second == pytest.approx(of_first.get(name, 3 * first))
    state = copy.deepcopy(scheduler.state_dict())
    scheduler.load_state_dict(state)


def test_a_group_without_a_function_or_bounds_is_named():
    for make in (SCHEDULERS["cycles"], SCHEDULERS["one cycle"]):
        optimizer = sgd(momentum=0.9)
        scheduler = make(optimizer)
        optimizer.add_param_group({"params": [flambeau.ones(1, requires_grad=True)]})
        optimizer.step()
        with pytest.raises(ValueError, match=r"has bounds for 1 parameter groups, but .* has 2"):
            scheduler.step()
    optimizer = sgd()
    scheduler = lr_scheduler.LambdaLR(optimizer, [lambda epoch: 0.5])
    optimizer.add_param_group({"params": [flambeau.ones(1, requires_grad=True)]})
    optimizer.step()
    with pytest.raises(ValueError, match=r"1 functions, but the optimizer has 1 parameter groups"):
        scheduler.step()
