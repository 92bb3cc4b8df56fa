"""Tracebacks of mistakes: the user's lines, PyTorch's phrase, and the module at fault."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import traceback
from typing import NamedTuple

import pytest

import flambeau
from flambeau import nn
from flambeau.core.operators.function_modes import expect_stand_ins
from flambeau.core.support import tracebacks

F = nn.functional


@pytest.fixture(autouse=True)
def _short(monkeypatch):
    monkeypatch.setattr(tracebacks, "is_full", False)


class Mistake(NamedTuple):
    """A mistake.

    Attributes:
        make: Makes it.
        type: The type of the error.
        phrase: A part of its message.
        own: The number of frames of flambeau's in its traceback.
        last: The last line of the traceback; by default the message.
    """

    make: object
    type: type[Exception]
    phrase: str
    own: int = 0
    last: str = ""


def ones(*shape, **options):
    return flambeau.ones(*shape, **options)


def block():
    return nn.Sequential(nn.Linear(3, 3), nn.Sequential(nn.ReLU(), nn.Linear(4, 2)))


class Custom(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)

    def forward(self, x):
        return self.layer(x) + self.missing


class Forgetful(nn.Module):
    def __init__(self):
        self.layer = nn.Linear(2, 2)


def twice():
    loss = ones(2, requires_grad=True).square().sum()
    loss.backward()
    loss.backward()


def assign_gradient():
    x = ones(2, requires_grad=True)
    x.grad = ones(3)


def grow_leaf():
    x = ones(2, requires_grad=True)
    x += 1


MISTAKES = {
    "shapes": Mistake(lambda: ones(2, 3) @ ones(2, 3), RuntimeError, "cannot be multiplied"),
    "operator": Mistake(lambda: ones(2) + ones(3), RuntimeError, "broadcast"),
    "reflected operator": Mistake(lambda: "a" + ones(2), TypeError, "str"),
    "method": Mistake(lambda: ones(2, 3).view(5), RuntimeError, "invalid for an input"),
    "function": Mistake(lambda: flambeau.cat([ones(2, 3), ones(3)]), RuntimeError, "cat()"),
    "keyword": Mistake(lambda: ones(2, 3).sum(dim=4), IndexError, "out of range"),
    "leaf in place": Mistake(grow_leaf, RuntimeError, "a leaf Variable that requires grad"),
    "number": Mistake(lambda: ones(2).item(), RuntimeError, "cannot be converted to Scalar"),
    "truth": Mistake(lambda: bool(ones(2)), RuntimeError, "ambiguous"),
    "numpy": Mistake(lambda: ones(2, requires_grad=True).numpy(), RuntimeError, "detach().numpy()"),
    "ragged": Mistake(lambda: flambeau.tensor([[1], [2, 3]]), ValueError, "dim 1"),
    "gradient": Mistake(assign_gradient, RuntimeError, "shape"),
    "backward twice": Mistake(twice, RuntimeError, "backward through the graph a second time"),
    "no graph": Mistake(lambda: ones(()).backward(), RuntimeError, "does not require grad"),
    "target": Mistake(
        lambda: F.cross_entropy(ones(2, 3), flambeau.tensor([0, 3])), IndexError, "out of bounds", 1
    ),
    "layer": Mistake(
        lambda: nn.Linear(3, 2)(ones(2)), RuntimeError, "cannot be multiplied", 1, "in Linear"
    ),
    "inner layer": Mistake(
        lambda: block()(ones(2, 3)), RuntimeError, "cannot be multiplied", 3, "in 1.1 (Linear)"
    ),
    "own module": Mistake(
        lambda: Custom()(ones(2, 2)), AttributeError, "'Custom' object has no attribute", 1,
        "in Custom",
    ),
    "forgotten init": Mistake(Forgetful, AttributeError, "before Module.__init__()"),
    "state dict": Mistake(
        lambda: nn.Linear(2, 2).load_state_dict({}), RuntimeError, "Missing key(s) in state_dict"
    ),
    "optimizer": Mistake(lambda: flambeau.optim.SGD([], 0.1), ValueError, "empty", 2),
    "compiled": Mistake(
        lambda: flambeau.compile(lambda x: x @ x)(ones(2, 3)), RuntimeError, "cannot be multiplied"
    ),
    "compiled layer": Mistake(
        lambda: flambeau.compile(block())(ones(2, 3)), RuntimeError, "cannot be multiplied", 3,
        "in 1.1 (Linear)",
    ),
}  # fmt: skip


@pytest.fixture(params=[False, True], ids=["", "asking"])
def _asking(request):
    """Functions ask stand-ins for tensors first, where there are any."""
    if request.param:
        expect_stand_ins(True)
    yield
    if request.param:
        expect_stand_ins(False)


@pytest.mark.usefixtures("_asking")
@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_told_in_few_lines(name):
    mistake = MISTAKES[name]
    with pytest.raises(mistake.type) as caught:
        mistake.make()
    error = caught.value
    assert mistake.phrase in str(error)
    frames = [each.filename for each in traceback.extract_tb(error.__traceback__)]
    own = [each for each in frames if each.startswith(tracebacks.OWN_FOLDERS)]
    assert len(own) <= mistake.own
    lines = "".join(traceback.format_exception(error)).rstrip("\n").splitlines()
    assert lines[-1] == (mistake.last or lines[-1])
    assert not any("JAX has removed" in each for each in lines)


def test_the_module_is_named_once_however_deep_it_lies():
    net = nn.Sequential(nn.Sequential(nn.Sequential(nn.Linear(3, 2))))
    with pytest.raises(RuntimeError) as caught:
        net(ones(2))
    assert caught.value.__notes__ == ["in 0.0.0 (Linear)"]


def test_an_error_holds_no_module_and_is_pickled():
    net = nn.Sequential(nn.Linear(3, 2))
    net.activation = lambda x: x
    with pytest.raises(RuntimeError) as caught:
        net(ones(2))
    again = pickle.loads(pickle.dumps(caught.value))
    assert again.__notes__ == ["in 0 (Linear)"]
    assert not any(isinstance(each, nn.Module) for each in vars(again).values())


def test_an_error_that_is_raised_again_by_another_module_is_noted_there_too():
    error = ValueError("mine")

    class Failing(nn.Module):
        def forward(self):
            raise error

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Failing()

        def forward(self):
            return self.inner()

    for _ in range(2):
        with pytest.raises(ValueError, match="mine"):
            Outer()()
    assert set(error.__notes__) == {"in inner (Failing)"}


def test_the_users_frames_stay():
    def hook(module, args):
        raise KeyError("mine")

    layer = nn.Linear(2, 2)
    layer.register_forward_pre_hook(hook)
    with pytest.raises(KeyError) as caught:
        layer(ones(2, 2))
    names = [each.name for each in traceback.extract_tb(caught.value.__traceback__)]
    assert names[-1] == "hook"


def test_a_fault_of_flambeaus_own_keeps_all_frames(monkeypatch):
    monkeypatch.delattr("flambeau.core.operators.dispatch._computed")
    with pytest.raises(NameError) as caught:
        ones(2).exp()
    names = [each.name for each in traceback.extract_tb(caught.value.__traceback__)]
    assert "run" in names


def test_what_the_user_was_handling_stays_and_what_flambeau_was_does_not():
    for message in ("mine", None):
        with pytest.raises(RuntimeError) as caught:
            try:
                if message is not None:
                    raise ValueError(message)
                ones(2) + ones(3)
            except ValueError:
                ones(2) + ones(3)
        assert str(caught.value.__context__) == str(message)


def test_the_environment_keeps_all_frames():
    code = "import flambeau; flambeau.ones(2) + flambeau.ones(3)"

    def lines(**more):
        environment = {**os.environ, "FLAMBEAU_TRACEBACKS": "", **more}
        found = subprocess.run(
            [sys.executable, "-c", code],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        return found.stderr.splitlines()

    # Newer versions of Python show the command too.
    assert len(lines()) <= 6
    assert not any("dispatch.py" in each for each in lines())
    assert any("dispatch.py" in each for each in lines(FLAMBEAU_TRACEBACKS="full"))
