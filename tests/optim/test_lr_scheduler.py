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
    with pytest.raises(ValueError, match="2 steps is over"):
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
