"""`GradScaler`: which steps are left out, how the scale moves, and what is refused."""

import pickle

import pytest

import flambeau
from flambeau import nn
from flambeau.amp import GradScaler
from flambeau.compile.errors import CompileError


class Training:
    """A weight, an optimizer and a scaler; each step has a gradient of the given size."""

    def __init__(self, **options):
        self.weight = nn.Parameter(flambeau.ones(2))
        self.optimizer = flambeau.optim.SGD([self.weight], lr=0.5)
        self.scaler = GradScaler("cpu", **{"init_scale": 4.0, "growth_interval": 2, **options})

    def backward(self, slope=1.0):
        self.optimizer.zero_grad()
        self.scaler.scale((self.weight * slope).sum()).backward()

    def step(self, slope=1.0):
        self.backward(slope)
        self.scaler.step(self.optimizer)
        self.scaler.update()


def test_the_scale_grows_after_good_steps_and_shrinks_after_bad_ones():
    training = Training()
    scales = []
    for slope in (1.0, 1.0, 1.0, float("inf"), 1.0, float("nan"), 1.0, 1.0):
        training.step(slope)
        scales.append(training.scaler.get_scale())
    assert scales == [4, 8, 8, 4, 4, 2, 2, 4]
    assert training.weight.tolist() == [1 - 0.5 * 6] * 2


def test_a_scale_does_not_grow_beyond_all_bounds():
    training = Training(init_scale=2.0**127, growth_interval=1)
    training.step(0.0)
    assert training.scaler.get_scale() == 2.0**127


def test_gradients_can_be_looked_at_before_the_step():
    training = Training()
    training.backward(3.0)
    assert training.weight.grad.tolist() == [12, 12]
    training.scaler.unscale_(training.optimizer)
    assert training.weight.grad.tolist() == [3, 3]
    nn.utils.clip_grad_value_([training.weight], 1.0)
    training.scaler.step(training.optimizer)
    assert training.weight.tolist() == [0.5, 0.5]


def test_several_optimizers_share_a_scale():
    training = Training()
    other = nn.Parameter(flambeau.ones(1))
    second = flambeau.optim.SGD([other], lr=0.5)
    loss = training.weight.sum() + (other * float("inf")).sum()
    training.scaler.scale([loss])[0].backward()
    training.scaler.step(training.optimizer)
    training.scaler.step(second)
    training.scaler.update()
    assert training.weight.tolist() == [0.5, 0.5]
    assert other.tolist() == [1]
    assert training.scaler.get_scale() == 2


def test_the_result_of_the_optimizer_is_passed_on():
    training = Training()
    training.optimizer.step = lambda: "stepped"
    training.backward()
    assert training.scaler.step(training.optimizer) == "stepped"
    training.scaler.update()
    training.backward(float("inf"))
    assert training.scaler.step(training.optimizer) is None


def test_what_comes_too_early_or_twice_is_refused():
    training = Training()
    for call in (training.scaler.update, lambda: training.scaler.step(training.optimizer)):
        with pytest.raises(AssertionError, match="comes after scale"):
            call()
    training.backward()
    with pytest.raises(AssertionError, match="comes after step"):
        training.scaler.update()
    with pytest.raises(RuntimeError, match="no closure"):
        training.scaler.step(training.optimizer, closure=lambda: 0.0)
    training.scaler.unscale_(training.optimizer)
    with pytest.raises(RuntimeError, match="already called for this optimizer"):
        training.scaler.unscale_(training.optimizer)
    training.scaler.step(training.optimizer)
    for call in (training.scaler.step, training.scaler.unscale_):
        with pytest.raises(RuntimeError, match=r"step\(\).* already called"):
            call(training.optimizer)
    with pytest.raises(AssertionError, match="after update"):
        pickle.dumps(training.scaler)
    training.optimizer.zero_grad()
    training.scaler.update()
    with pytest.raises(AssertionError, match="no parameter of the optimizer has a gradient"):
        training.scaler.step(training.optimizer)
    with pytest.raises(ValueError, match="takes Tensors and lists of them, got int"):
        training.scaler.scale(3)


def test_without_the_device_nothing_is_scaled():
    with pytest.warns(UserWarning, match="GradScaler does nothing: there is no device of .*'tpu'"):
        scaler = GradScaler("tpu")
    assert (scaler.is_enabled(), scaler.get_scale(), scaler.scale(3)) == (False, 1.0, 3)


def test_gradients_in_float16_are_refused_and_stay():
    weight = nn.Parameter(flambeau.ones(2).half())
    optimizer = flambeau.optim.SGD([weight], lr=0.5)
    scaler = GradScaler("cpu", init_scale=4.0)
    scaler.scale(weight.sum()).backward()
    with pytest.raises(ValueError, match="float16"):
        scaler.unscale_(optimizer)
    assert weight.grad.tolist() == [4, 4]


def test_a_new_scale_can_be_given():
    training = Training()
    training.backward()
    training.scaler.update(32.0)
    assert training.scaler.get_scale() == 32
    training.scaler.update(flambeau.tensor([16.0]))
    assert training.scaler.get_scale() == 16
    with pytest.raises(TypeError, match=r"shape \[2\]"):
        training.scaler.update(flambeau.ones(2))


def test_states_are_saved_and_loaded_whole():
    training = Training()
    training.step()
    state = training.scaler.state_dict()
    assert state == {
        "scale": 4.0, "growth_factor": 2.0, "backoff_factor": 0.5, "growth_interval": 2,
        "_growth_tracker": 1,
    }  # fmt: skip
    for again in (
        GradScaler("cpu"),
        Training().scaler,
        pickle.loads(pickle.dumps(training.scaler)),
    ):
        again.load_state_dict(state)
        assert again.state_dict() == state
    with pytest.raises(KeyError, match="_growth_tracker"):
        training.scaler.load_state_dict(dict.fromkeys(list(state)[:4], 9.0))
    assert training.scaler.state_dict() == state
    with pytest.raises(RuntimeError, match="was disabled"):
        training.scaler.load_state_dict({})


def test_a_disabled_one_does_nothing():
    training = Training(enabled=False)
    training.step(float("inf"))
    assert training.weight.tolist() == [float("-inf")] * 2
    assert training.scaler.state_dict() == {}
    assert training.scaler.get_scale() == 1.0
    assert not training.scaler.is_enabled()
    training.scaler.load_state_dict({})


def test_factors_are_checked_and_can_be_changed():
    with pytest.raises(AssertionError, match=r"growth_factor must be greater than 1, got 1\.0"):
        GradScaler("cpu", growth_factor=1.0)
    with pytest.raises(AssertionError, match=r"backoff_factor must be less than 1, got 2\.0"):
        GradScaler("cpu", backoff_factor=2.0)
    training = Training()
    training.scaler.set_growth_factor(4.0)
    training.scaler.set_backoff_factor(0.25)
    training.scaler.set_growth_interval(1)
    training.step()
    assert training.scaler.get_scale() == 16
    training.step(float("inf"))
    assert training.scaler.get_scale() == 4
    assert training.scaler.get_growth_factor() == 4
    assert training.scaler.get_backoff_factor() == 0.25
    assert training.scaler.get_growth_interval() == 1


def test_a_step_in_a_compiled_function_says_why_not():
    training = Training()
    step = flambeau.compile(training.step, fullgraph=True)
    with pytest.raises(CompileError, match="value"):
        step()


@pytest.mark.parametrize("fullgraph", [True, False])
@pytest.mark.parametrize("begun", [True, False])
def test_a_compiled_function_scales_by_the_present_scale(fullgraph, begun):
    training = Training(growth_interval=1)
    if begun:
        training.scaler.scale(flambeau.zeros(()))
    backward = flambeau.compile(training.backward, fullgraph=fullgraph)
    gradients = []
    for call in range(5):
        backward()
        gradients.append(training.weight.grad.tolist()[0])
        training.scaler.step(training.optimizer)
        training.scaler.update()
        if call == 2:
            training.scaler.load_state_dict({**training.scaler.state_dict(), "scale": 128.0})
        if call == 3:
            training.scaler.update(new_scale=3.0)
    assert gradients == [4, 8, 16, 128, 3]
    assert backward.program_count == 1
