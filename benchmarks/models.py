"""A training step of whole models, as a ratio to PyTorch eager.

Each model and its step are defined once for both libraries (`_models`): forward, loss,
``backward``, clipping of the gradients' norm, and AdamW. The columns are PyTorch eager,
``torch.compile``, flambeau eager, flambeau compiled (the whole step as one program), on the CPU
also compiled without the native kernels, and plain JAX and Flax NNX where `_models_in_jax` and
`_models_in_nnx` have the model. The measurements are interleaved, each library in its own process.
The libraries must agree on the first loss.

    python benchmarks/models.py                    time of the process, everything on one core
    python benchmarks/models.py --all-cores        wall clock, on the cores that all choose
    python benchmarks/models.py --device cuda      wall clock, on a GPU, a larger GPT too
    python benchmarks/models.py --only GPT         only models whose name contains this

Wall clock needs an otherwise idle machine.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from _beside_pytorch import Column, run  # isort: skip
from _cores import OPTIONS  # isort: skip

from _models import CASES, CASES_FOR_GPUS, Case, step_of

#: The maximum ratio of a compiled step on the CPU to a column.
LIMITS = {
    "Residual network": {"PyTorch": 0.9, "torch.compile": 1.2},
    "GPT": {"torch.compile": 0.9},
}


#: The models that have a step in plain JAX and in NNX, and its name.
BY_HAND = {"Perceptron": "perceptron", "Residual network": "residual_network", "GPT, 4": "gpt"}

if OPTIONS.device == "cuda":
    CASES += CASES_FOR_GPUS


def prepare(
    lib: ModuleType, name: str, compiles: bool
) -> tuple[Callable[[], list[Any]], float | None]:
    """The step of the model of this name, and its first loss."""
    case = next(each for each in CASES if each.name == name)
    if lib.__name__ == "jax":
        return step_by_hand(case), None
    if lib.__name__ == "flax":
        return step_in_nnx(case), None
    step, model = step_of(lib, case, OPTIONS.device)
    if compiles:
        step = lib.compile(step)
    parameters = list(model.parameters())
    return lambda: [step(), *parameters], step().item()


def model_of(case: Case) -> str:
    """The name of a model that `_models_in_jax` and `_models_in_nnx` have."""
    model = next((each for start, each in BY_HAND.items() if case.name.startswith(start)), None)
    if model is None:
        raise NotImplementedError("there is no such step by hand")
    return model


def step_in_nnx(case: Case) -> Callable[[], list[Any]]:
    """The NNX step, with its own parameters."""
    import _models_in_nnx
    import jax

    model = model_of(case)
    with jax.default_device(jax.devices(OPTIONS.device)[0]):
        step = _models_in_nnx.build(model, case.input, case.target)
    return lambda: [step()]


def step_by_hand(case: Case) -> Callable[[], list[Any]]:
    """The plain JAX step, with its own parameters."""
    import _models_in_jax
    import jax

    model = model_of(case)
    with jax.default_device(jax.devices(OPTIONS.device)[0]):
        state, step = _models_in_jax.start_of(model), _models_in_jax.step_of(model)
        input, target = jax.numpy.asarray(case.input), jax.numpy.asarray(case.target)

    def run() -> list[Any]:
        nonlocal state
        loss, state = step(state, input, target)
        return [loss, *jax.tree.leaves(state)]

    return run


def limits_of(name: str) -> dict[str, float]:
    if OPTIONS.device != "cpu":
        return {}
    return next((each for model, each in LIMITS.items() if name.startswith(model)), {})


if __name__ == "__main__":
    rows = {case.name: limits_of(case.name) for case in CASES}
    columns = Column("JAX by hand", "jax", True), Column("NNX", "flax", True)
    run("one training step", prepare, rows, *columns)
