"""Training that is interrupted, saved by some recipe and resumed: it goes on as if it had not been.

``python -m tests.fuzz.resuming --seconds 600 --seed 1`` searches. A session is a model, an
optimizer, and perhaps a scheduler, a scaler and an average of the weights. After some steps its
state goes through a recipe into new objects, or into ones that have made other steps. Losses,
rates, weights and averages of the next steps must be those of the first session, bit by bit, with
everything compiled at once.
"""

from __future__ import annotations

import copy
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path
from random import Random
from typing import Any

import flambeau
from flambeau import nn, optim
from flambeau.amp import GradScaler
from flambeau.compiler import gears
from flambeau.distributed import checkpoint
from flambeau.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from flambeau.optim import lr_scheduler as schedules
from flambeau.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from tests.fuzz.report import Disagreement, Report, main

OPTIMIZERS: dict[str, Any] = {
    "SGD": lambda groups, lr: optim.SGD(groups, lr=lr),
    "SGD with momentum": lambda groups, lr: optim.SGD(groups, lr=lr, momentum=0.9),
    "SGD with dampening": lambda groups, lr: optim.SGD(groups, lr=lr, momentum=0.9, dampening=0.5),
    "Adam with amsgrad": lambda groups, lr: optim.Adam(groups, lr=lr, amsgrad=True),
    "AdamW": lambda groups, lr: optim.AdamW(groups, lr=lr),
    "Adagrad": lambda groups, lr: optim.Adagrad(groups, lr=lr),
    "RMSprop": lambda groups, lr: optim.RMSprop(groups, lr=lr, momentum=0.5, centered=True),
    "Rprop": lambda groups, lr: optim.Rprop(groups, lr=lr),
    "NAdam": lambda groups, lr: optim.NAdam(groups, lr=lr),
    "ASGD": lambda groups, lr: optim.ASGD(groups, lr=lr),
    "Adafactor": lambda groups, lr: optim.Adafactor(groups, lr=lr),
    "LBFGS": lambda groups, lr: optim.LBFGS(groups, lr=lr, max_iter=2),
    "one of the user's": lambda groups, lr: Averaging(groups, {"lr": lr}),
}
SCHEDULERS: dict[str, Any] = {
    "none": None,
    "StepLR": lambda o: schedules.StepLR(o, 2, 0.5),
    "LambdaLR": lambda o: schedules.LambdaLR(o, lambda epoch: 0.75**epoch),
    "CosineAnnealingLR": lambda o: schedules.CosineAnnealingLR(o, 5),
    "warm restarts": lambda o: schedules.CosineAnnealingWarmRestarts(o, 2, 2),
    "CyclicLR": lambda o: schedules.CyclicLR(o, 0.01, 0.1, 2, cycle_momentum=False),
    "sequence": lambda o: schedules.SequentialLR(
        o,
        [schedules.LinearLR(o, 0.25, 1, 2), schedules.CosineAnnealingWarmRestarts(o, 2)],
        [2],
    ),
    "chain": lambda o: schedules.ChainedScheduler(
        [schedules.ConstantLR(o, 0.5, 2), schedules.ExponentialLR(o, 0.75)]
    ),
}


class Averaging(optim.Optimizer):
    """An optimizer with tensors, numbers and a list in its state."""

    @flambeau.no_grad()
    def step(self, closure: Any = None) -> None:
        """One step by the mean of the last gradients."""
        for group in self.param_groups:
            for param in group["params"]:
                if param.grad is None:
                    continue
                state = self.state[param]
                if not state:
                    state.update(count=0, last=[])
                state["count"] += 1
                state["last"] = [*state["last"][-1:], param.grad.clone()]
                param.sub_(sum(state["last"]) * (group["lr"] / state["count"]))


class Session:
    """The objects of a training, the same for the same choices.

    Args:
        choices: As `chosen` gives them.
        seed: Of the first weights.
    """

    def __init__(self, choices: dict[str, Any], seed: int) -> None:
        flambeau.manual_seed(seed)
        self.choices = choices
        self.model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 2))
        if choices["tied"]:
            self.model.append(nn.Linear(2, 4))
            self.model[4].bias = self.model[0].bias
        lr = flambeau.tensor(0.05) if choices["tensor"] else 0.05
        named = dict(self.model.named_parameters())
        params = list(named.items()) if choices["named"] else list(named.values())
        groups: Any = [{"params": params[:2]}, {"params": params[2:], "lr": lr * 2}]
        whole = choices["optimizer"] == "LBFGS" or not choices["groups"]
        self.optimizer = OPTIMIZERS[choices["optimizer"]](params if whole else groups, lr)
        self.scaler = GradScaler(init_scale=8.0, growth_interval=2) if choices["scaler"] else None
        self.average = None
        if choices["average"]:
            self.average = AveragedModel(self.model, multi_avg_fn=get_ema_multi_avg_fn(0.5))
        self.scheduler: Any = None
        self.make_scheduler()

    def make_scheduler(self) -> None:
        """Make the scheduler, again where a recipe makes it after loading the optimizer."""
        make = SCHEDULERS[self.choices["scheduler"]]
        self.scheduler = None if make is None else make(self.optimizer)

    def parts(self) -> dict[str, Any]:
        """What has a state dict, by name."""
        found = {
            "model": self.model, "optimizer": self.optimizer, "scheduler": self.scheduler,
            "scaler": self.scaler, "average": self.average,
        }  # fmt: skip
        return {name: each for name, each in found.items() if each is not None}

    def steps(self, first: int, last: int) -> list[Any]:
        """The loss and the rates of the steps from ``first`` to ``last``, and all tensors then."""
        with gears(interpret=False, fuse=False):
            return self._steps(first, last)

    def _steps(self, first: int, last: int) -> list[Any]:
        found: list[Any] = []
        for number in range(first, last):
            frozen = number < self.choices["frozen"]
            self.model[0].weight.requires_grad_(not frozen)
            loss = self._step(number)
            if self.average is not None:
                self.average.update_parameters(self.model)
            if self.scheduler is not None:
                self.scheduler.step()
            rates = [float(group["lr"]) for group in self.optimizer.param_groups]
            found += [loss.item(), rates]
        modules = [each for each in (self.model, self.average) if each is not None]
        found += [each.numpy().tobytes() for m in modules for each in m.state_dict().values()]
        return found

    def _step(self, number: int) -> Any:
        x = flambeau.linspace(-1, 1, 15).reshape(5, 3) * (1 + number)

        def closure() -> Any:
            self.optimizer.zero_grad()
            loss = (self.model(x) - 1).square().mean()
            (loss if self.scaler is None else self.scaler.scale(loss)).backward()
            return loss

        if isinstance(self.optimizer, optim.LBFGS):
            return self.optimizer.step(closure)
        loss = closure()
        if self.scaler is None:
            self.optimizer.step()
        else:
            self.scaler.step(self.optimizer)
            self.scaler.update()
        return loss


class App:
    """The object with a state dict of PyTorch's guide to distributed checkpoints."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def state_dict(self) -> dict[str, Any]:
        """The states by names of parameters, and those of the other parts."""
        session = self.session
        model, optimizer = get_state_dict(session.model, session.optimizer)
        others = {
            name: each.state_dict()
            for name, each in session.parts().items()
            if name not in ("model", "optimizer")
        }
        return {"model": model, "optimizer": optimizer, **others}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load what `state_dict` gave."""
        session = self.session
        set_state_dict(
            session.model,
            session.optimizer,
            model_state_dict=state["model"],
            optim_state_dict=state["optimizer"],
        )
        for name, each in session.parts().items():
            if name not in ("model", "optimizer"):
                each.load_state_dict(state[name])


# Recipes: each saves a session in a folder, and loads another one from it.


def _states(session: Session) -> dict[str, Any]:
    return {name: each.state_dict() for name, each in session.parts().items()}


def _take(session: Session, states: dict[str, Any], random: Random) -> None:
    """Load state dicts, in any order; the scheduler may be made after the optimizer is loaded."""
    if random.random() < 0.3:
        session.optimizer.load_state_dict(states["optimizer"])
        session.make_scheduler()
    names = list(session.parts())
    random.shuffle(names)
    for name in names:
        session.parts()[name].load_state_dict(states[name])


class InMemory:
    """Copies of the state dicts."""

    def save(self, session: Session, folder: Path) -> None:
        self.states = copy.deepcopy(_states(session))

    def load(self, session: Session, folder: Path, random: Random) -> None:
        _take(session, self.states, random)


class OneFile:
    """All state dicts in one file."""

    def save(self, session: Session, folder: Path) -> None:
        flambeau.save(_states(session), folder / "all.pt")

    def load(self, session: Session, folder: Path, random: Random) -> None:
        _take(session, flambeau.load(folder / "all.pt"), random)


class Safetensors:
    """Models as safetensors, the rest in another file."""

    def save(self, session: Session, folder: Path) -> None:
        states = _states(session)
        for name in {"model", "average"} & states.keys():
            flambeau.save(states.pop(name), folder / f"{name}.safetensors")
        flambeau.save(states, folder / "rest.pt")

    def load(self, session: Session, folder: Path, random: Random) -> None:
        states = flambeau.load(folder / "rest.pt")
        for name in {"model", "average"} & session.parts().keys():
            states[name] = flambeau.load(folder / f"{name}.safetensors")
        _take(session, states, random)


class InParts:
    """A distributed checkpoint of the state dicts."""

    def save(self, session: Session, folder: Path) -> None:
        checkpoint.save(_states(session), checkpoint_id=folder)

    def load(self, session: Session, folder: Path, random: Random) -> None:
        states = _states(session)
        checkpoint.load(states, checkpoint_id=folder)
        _take(session, states, random)


class Owners:
    """A distributed checkpoint of the objects themselves."""

    def save(self, session: Session, folder: Path) -> None:
        checkpoint.save(session.parts(), checkpoint_id=folder)

    def load(self, session: Session, folder: Path, random: Random) -> None:
        checkpoint.load(session.parts(), checkpoint_id=folder)


class ByNames:
    """PyTorch's recipe with `get_state_dict` and `set_state_dict`."""

    def save(self, session: Session, folder: Path) -> None:
        checkpoint.save(App(session).state_dict(), checkpoint_id=folder)

    def load(self, session: Session, folder: Path, random: Random) -> None:
        app = App(session)
        states = app.state_dict()
        checkpoint.load(states, checkpoint_id=folder)
        app.load_state_dict(states)


class Stateful:
    """PyTorch's recipe with an object that has a state dict."""

    def save(self, session: Session, folder: Path) -> None:
        checkpoint.save({"app": App(session)}, checkpoint_id=folder)

    def load(self, session: Session, folder: Path, random: Random) -> None:
        checkpoint.load({"app": App(session)}, checkpoint_id=folder)


RECIPES = {
    each.__name__: each
    for each in (InMemory, OneFile, Safetensors, InParts, Owners, ByNames, Stateful)
}


def chosen(random: Random) -> dict[str, Any]:
    """The choices of one session."""
    optimizer = random.choice(list(OPTIMIZERS))
    return {
        "recipe": random.choice(list(RECIPES)),
        "optimizer": optimizer,
        "scheduler": random.choice(list(SCHEDULERS)),
        "scaler": optimizer != "LBFGS" and random.random() < 0.3,
        "average": random.random() < 0.3,
        "tied": random.random() < 0.3,
        "tensor": optimizer.startswith(("Adam", "SGD")) and random.random() < 0.3,
        "named": random.random() < 0.3,
        "groups": random.random() < 0.4,
        "frozen": random.choice([0, 0, 2, 4]),
        "before": random.randrange(5),
        "used": random.choice([0, 0, 1, 3]),
    }


def judged(choices: dict[str, Any], random: Random) -> str:
    """What is wrong with resuming a session, or nothing."""
    session = Session(choices, 1)
    before = choices["before"]
    recipe: Any = RECIPES[choices["recipe"]]()
    with tempfile.TemporaryDirectory() as folder:
        session.steps(0, before)
        recipe.save(session, Path(folder))
        expected = session.steps(before, before + 3)
        other = Session(choices, 2)
        other.steps(0, choices["used"])
        try:
            recipe.load(other, Path(folder), random)
            found = other.steps(before, before + 3)
        except Exception:  # noqa: BLE001 - any error is what is searched for
            return traceback.format_exc(limit=-3)
    if len(found) != len(expected):
        return "other tensors"
    pairs = enumerate(zip(expected, found, strict=True))
    return next((f"entry {i} differs" for i, (a, b) in pairs if a != b), "")


def run(seconds: float | None, seed: int, limit: int | None) -> Report:
    """Search until the time, or the number of sessions, is reached."""
    report, begin, index = Report("resuming", seed), time.monotonic(), 0
    with warnings.catch_warnings():
        # A frozen parameter has no gradient, and some schedulers step before the optimizer.
        warnings.simplefilter("ignore")
        while (limit is None or index < limit) and (
            seconds is None or time.monotonic() - begin < seconds
        ):
            random = Random(f"{seed} {index}")
            choices = chosen(random)
            wrong = judged(choices, random)
            report.counts["sessions"] += 1
            report.counts[choices["recipe"]] += 1
            if wrong:
                title = f"seed {seed}, session {index}: {wrong.splitlines()[-1]}"
                program = f"# {choices}\n# " + wrong.replace("\n", "\n# ")
                report.disagreements.append(Disagreement(title, program))
            index += 1
    report.seconds = time.monotonic() - begin
    return report


if __name__ == "__main__":
    sys.exit(main(run))
