"""Eager training loops with and without fusion, and compiled: speed and memory.

The columns are PyTorch eager, flambeau eager with and without fused sequences, the whole step
compiled, and plain JAX where there is such a step, interleaved, each in its own process. Below each
row is the memory that it adds to the process, including its compiler's.

    python benchmarks/loops.py                  time of the process, everything on one core
    python benchmarks/loops.py --device cuda    wall clock, on a GPU
    python benchmarks/loops.py --only 400       only rows whose name contains this
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import _beside_pytorch  # isort: skip
from _beside_pytorch import Column, run  # isort: skip
from _cores import OPTIONS  # isort: skip

import numpy as np
from _models import CASES, Case, gpt, integers, perceptron, step_of

# Steps before the timed ones; a loop is fused after 40 here, to keep the benchmark short.
BEFORE = 60

WORDS = 1000
SMALL, WIDTH = 400, 16

_beside_pytorch.COLUMNS = (
    Column("PyTorch", "torch", False),
    Column("fused", "flambeau", False, {"FLAMBEAU_FUSE": "40", "FLAMBEAU_INTERPRET": "0"}),
    Column("eager", "flambeau", False, {"FLAMBEAU_FUSE": "0", "FLAMBEAU_INTERPRET": "0"}),
    Column("compiled", "flambeau", True),
)

Step = Callable[[], Any]


def model(name: str) -> Callable[[ModuleType], Step]:
    """The step of the first case of `_models` whose name has this prefix."""
    case = next(each for each in CASES if each.name.startswith(name))
    return lambda lib: step_of(lib, case, OPTIONS.device)[0]


def narrow(lib: ModuleType) -> Step:
    """A GPT of 128 channels."""
    words = integers(WORDS, 8, 64), integers(WORDS, 8, 64)
    return step_of(lib, Case("", lambda lib: gpt(lib, 4, 128, 4, 64), *words), OPTIONS.device)[0]


def small_tensors(lib: ModuleType) -> Step:
    """A sum over many small parameters, and an SGD step."""
    lib.manual_seed(0)
    tensors = [lib.nn.Parameter(lib.randn(WIDTH, device=OPTIONS.device)) for _ in range(SMALL)]
    optimizer = lib.optim.SGD(tensors, lr=0.01)

    def step() -> Any:
        loss = sum((each * each).sum() for each in tensors)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    return step


def belief(lib: ModuleType) -> Step:
    """A custom optimizer, one parameter at a time."""

    class Belief(lib.optim.Optimizer):
        def step(self) -> None:
            with lib.no_grad():
                for group in self.param_groups:
                    for each in group["params"]:
                        self.update(each, group["lr"])

        def update(self, each: Any, rate: float) -> None:
            state = self.state[each]
            if not state:
                state["step"] = 0
                state["mean"] = lib.zeros_like(each)
                state["variance"] = lib.zeros_like(each)
            state["step"] += 1
            mean, variance = state["mean"], state["variance"]
            mean.mul_(0.9).add_(each.grad, alpha=0.1)
            distance = each.grad - mean
            variance.mul_(0.999).addcmul_(distance, distance, value=0.001)
            scale = (1 - 0.999 ** state["step"]) ** 0.5
            root = (variance.sqrt() / scale).add_(1e-8)
            each.addcdiv_(mean, root, value=-rate / (1 - 0.9 ** state["step"]))

    return trained(lib, lambda parameters: Belief(parameters, {"lr": 1e-4}))


def asked(lib: ModuleType) -> Step:
    """A step that reads its loss before the backward pass."""
    return trained(lib, adam(lib), lambda loss: loss.item())


def branching(lib: ModuleType) -> Step:
    """A step with a rarely taken branch on a value."""
    count = 0

    def look(loss: Any) -> Any:
        nonlocal count
        count += 1
        return loss * 0.5 if loss.item() > (0.0 if count % 3 else 1e9) else None

    return trained(lib, adam(lib), look)


def lengths(lib: ModuleType) -> Step:
    """A step whose every batch has a new length."""
    lib.manual_seed(0)
    if lib.__name__ == "flambeau":
        # Without repetitions, this is the default mode.
        lib.compiler.gears(interpret=True)
    layer = lib.nn.Linear(32, 32).to(OPTIONS.device)
    optimizer = adam(lib)(layer.parameters())
    length = 7

    def step() -> Any:
        nonlocal length
        length += 1
        loss = layer(lib.ones(length, 32, device=OPTIONS.device)).relu().square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    return step


def adam(lib: ModuleType) -> Callable[[Any], Any]:
    return lambda parameters: lib.optim.AdamW(parameters, lr=1e-4)


def trained(
    lib: ModuleType, optimizer_of: Callable[[Any], Any], look: Callable[[Any], Any] | None = None
) -> Step:
    """A step of a perceptron that reads its loss."""
    lib.manual_seed(0)
    case = next(each for each in CASES if each.build is perceptron)
    net = perceptron(lib).to(OPTIONS.device)
    optimizer = optimizer_of(net.parameters())
    input, target = (lib.from_numpy(each).to(OPTIONS.device) for each in (case.input, case.target))

    def step() -> Any:
        loss = lib.nn.functional.cross_entropy(net(input), target)
        if look is not None:
            found = look(loss)
            loss = loss if not hasattr(found, "backward") else found
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    return step


def small_tensors_by_hand() -> Step:
    import jax
    import jax.numpy as jnp

    rng = np.random.default_rng(0)
    tensors = [jnp.asarray(rng.standard_normal(WIDTH, dtype=np.float32)) for _ in range(SMALL)]

    def loss_of(tensors: Any) -> Any:
        return sum(jnp.sum(each * each) for each in tensors)

    @jax.jit
    def update(tensors: Any) -> Any:
        loss, gradients = jax.value_and_grad(loss_of)(tensors)
        return loss, [each - 0.01 * other for each, other in zip(tensors, gradients, strict=True)]

    def step() -> Any:
        nonlocal tensors
        loss, tensors = update(tensors)
        return loss

    return step


#: Each row: its step, whether it can be compiled, and the maximum ratios of "fused" to other
#: columns.
ROWS: dict[str, tuple[Callable[[ModuleType], Step], bool, dict[str, float]]] = {
    "Perceptron": (model("Perceptron"), True, {"compiled": 1.3}),
    "Residual network": (model("Residual"), True, {"compiled": 1.05}),
    "GPT, 4 layers of 128": (narrow, True, {"compiled": 1.05}),
    "400 small tensors": (small_tensors, True, {"JAX by hand": 2.3}),
    "An optimizer written by hand": (belief, True, {"PyTorch": 2.0}),
    "The loss is asked for": (asked, False, {}),
    "A branch on a value": (branching, False, {}),
    "Every batch has a new length": (lengths, False, {}),
}


def prepare(lib: ModuleType, name: str, compiles: bool) -> tuple[Step, float | None]:
    """The step of a row, after enough calls for it to be fused."""
    build, can_be_compiled, _ = ROWS[name]
    if lib.__name__ == "jax":
        if build is not small_tensors:
            raise NotImplementedError("there is no such step by hand")
        step = small_tensors_by_hand()
    else:
        if compiles and not can_be_compiled:
            raise NotImplementedError("it is no single program")
        step = build(lib)
        if compiles:
            step = lib.compile(step)
    for _ in range(BEFORE):
        step()
    return lambda: [step()], None


if __name__ == "__main__":
    run(
        "one training step",
        prepare,
        {name: limits for name, (_, _, limits) in ROWS.items()},
        Column("JAX by hand", "jax", True),
        judged="fused",
        memory=True,
    )
