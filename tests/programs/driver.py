"""Runs one program, whichever library `torch` is, and writes down what it gave.

``python driver.py CASE FOLDER [OTHER]``: CASE is a file of `cases`, FOLDER takes ``numbers.npz``,
``facts.json`` and ``weights.pt``, and OTHER is the folder of a run whose weights are loaded.

A case has ``PACKAGE`` (its name on PyPI) and ``build()``, which gives a model, its inputs and a
function ``loss(model, *inputs)``; and perhaps ``REQUIRES`` (what is to be installed besides),
``INSTEAD`` (what is installed afterwards, in the place of what the package asks for),
``optimizer(model)``, and ``more(model, inputs)``, which gives other tensors to compare, by name.
Instead of ``build()`` it may have ``main()``, which gives all tensors to compare, or yields them in
parts, which are kept as they come. ``seconds`` among them is how long each of its training steps
took, and ``settled seconds`` how long one took after many. Where it also trains a compiled model,
``compiled seconds`` is that, and other names that begin with ``compiled`` are compared with the
same names without it.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import inspect
import json
import signal
import statistics
import sys
import time
import traceback
import warnings
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torchvision_operators

if TYPE_CHECKING:
    from collections.abc import Iterator

STEPS = 4
TIMED = 7
# The settled step comes after so many, or after so many seconds of them.
SETTLED, SECONDS = 1000, 30
# Minutes that the first compiled step may take: PyTorch compiles some networks for longer.
PATIENCE = 6
OVER = f"over {PATIENCE} min"


class TooLongError(BaseException):
    """A first compiled step took more than PATIENCE. Compilers catch every Exception."""


@contextlib.contextmanager
def bounded(minutes: float) -> Iterator[None]:
    """Raise a TooLongError in the block after some minutes."""

    def stop(*_: object) -> None:
        raise TooLongError

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, minutes * 60)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def load(path: str) -> Any:
    """The module of a case."""
    spec = importlib.util.spec_from_file_location("case", path)
    assert spec is not None
    assert spec.loader is not None
    case = importlib.util.module_from_spec(spec)
    # PyTorch's compiler looks for the module of the functions that it compiles.
    sys.modules[spec.name] = case
    spec.loader.exec_module(case)
    return case


def fill(model: Any) -> None:
    """Give the parameters numbers that do not depend on the library."""
    import numpy as np
    import torch

    with torch.no_grad():
        for name, parameter in model.named_parameters():
            values = parameter.detach().cpu().numpy()
            rng = np.random.default_rng(zlib.crc32(name.encode()))
            drawn = rng.standard_normal(values.shape)
            if values.size == 0 or values.min() == values.max():
                drawn = values + 0.05 * drawn
            else:
                drawn /= max(1, values.size // values.shape[0]) ** 0.5
            parameter.copy_(torch.from_numpy(np.asarray(drawn, values.dtype)))


def prepared(case: Any) -> tuple[Any, Any, Any]:
    """The model of a case, its inputs, and its training step."""
    import torch

    torch.manual_seed(0)
    model, inputs, loss = case.build()
    fill(model)
    make = getattr(case, "optimizer", None)
    trained = [each for each in model.parameters() if each.requires_grad]
    optimizer = torch.optim.Adam(trained, lr=1e-3) if make is None else make(model)

    def step(*inputs: Any) -> Any:
        optimizer.zero_grad()
        value = loss(model, *inputs)
        value.backward()
        optimizer.step()
        return value

    return model, inputs, step


def train(case: Any, compiled: bool, numbers: dict[str, Any], facts: dict[str, Any]) -> Any:
    """Build, take some steps, and note losses, gradients and seconds; gives model and inputs."""
    import torch

    kind = "compiled" if compiled else "eager"
    began = time.perf_counter()
    model, inputs, step = prepared(case)
    run = torch.compile(step) if compiled else step
    facts[f"{kind} build"] = time.perf_counter() - began
    losses, seconds = [], []
    for number in range(STEPS):
        began = time.perf_counter()
        first = compiled and number == 0
        with bounded(PATIENCE) if first else contextlib.nullcontext():
            losses.append(float(run(*inputs)))
        seconds.append(time.perf_counter() - began)
        if number == 0 and not compiled:
            gradients = [each.grad for each in model.parameters()]
            numbers["gradients"] = [float(each.norm()) for each in gradients if each is not None]
    numbers[f"{kind} losses"] = losses
    facts[f"{kind} first step"] = seconds[0]
    facts[f"{kind} later step"] = fastest(run, inputs)
    return model, inputs


def fastest(run: Any, inputs: Any) -> float:
    """The seconds of the fastest of some steps: other work on the machine disturbs the rest."""
    seconds = []
    for _ in range(TIMED):
        began = time.perf_counter()
        float(run(*inputs))
        seconds.append(time.perf_counter() - began)
    return min(seconds)


def settle(case: Any, facts: dict[str, Any]) -> None:
    """Note the seconds of an eager step of a loop that has gone on for long."""
    _, inputs, step = prepared(case)
    facts["eager settled step"] = settled(step, inputs)


def settled(run: Any, inputs: Any = ()) -> float:
    """The seconds of the fastest of some steps after many others."""
    ended = time.perf_counter() + SECONDS
    for _ in range(SETTLED):
        float(run(*inputs))
        if time.perf_counter() > ended:
            break
    return fastest(run, inputs)


def main(path: str, folder: str, other: str | None = None) -> None:
    """Run the case at ``path``."""
    import torch

    into = Path(folder)
    into.mkdir(parents=True, exist_ok=True)
    torchvision_operators.provide()
    case, numbers, facts = load(path), {}, {"torch": torch.__version__}
    facts["version"] = importlib.metadata.version(case.PACKAGE.partition("[")[0])
    facts["run"] = " ".join((case.__doc__ or "").split()).rstrip(".")
    if not hasattr(case, "build"):
        facts["eager because"] = heard(lambda: run_main(case, into, numbers, facts))
        write(into, numbers, facts)
        return
    model, inputs = train(case, False, numbers, facts)
    if hasattr(case, "more"):
        numbers |= _in_numpy(case.more(model, inputs))
    numbers["parameters"] = [float(each.detach().norm()) for each in model.parameters()]
    torch.save(model.state_dict(), into / "weights.pt")
    model.load_state_dict(torch.load(Path(other or folder) / "weights.pt"))
    numbers["loaded"] = [float(each.detach().norm()) for each in model.parameters()]
    write(into, numbers, facts)
    settle(case, facts)
    try:
        facts["eager because"] = heard(lambda: train(case, True, numbers, facts))
    except TooLongError:
        facts["compiled first step"] = OVER
    except Exception:  # noqa: BLE001 (the compiled step is told of by itself)
        facts["compiled error"] = traceback.format_exc()
    write(into, numbers, facts)


def run_main(case: Any, into: Path, numbers: dict[str, Any], facts: dict[str, Any]) -> None:
    """Run the ``main()`` of a case, and note what it gives or yields."""
    found: Any = case.main()
    for part in found if inspect.isgenerator(found) else [found]:
        if "settled seconds" in part:
            facts["eager settled step"] = part.pop("settled seconds")
        for kind, name in {"eager": "seconds", "compiled": "compiled seconds"}.items():
            if name in part:
                first, *others = part.pop(name)
                facts[f"{kind} first step"] = first
                known = [each for each in others if each is not None]
                facts[f"{kind} later step"] = statistics.median(known) if known else None
        numbers.update(_in_numpy(part))
        write(into, numbers, facts)


def seconds_of(functions: list[Any]) -> dict[str, Any]:
    """The ``seconds`` and ``compiled seconds`` of functions, each with the mean of their first
    calls and that of their fastest later ones; and their ``settled seconds``."""
    import torch

    found: dict[str, Any] = {}
    for name in ("seconds", "compiled seconds"):
        taken = []
        for function in functions:
            run = function if name == "seconds" else torch.compile(function)
            seconds = []
            for _ in range(STEPS + TIMED):
                began = time.perf_counter()
                try:
                    with contextlib.nullcontext() if seconds else bounded(PATIENCE):
                        float(run())
                except TooLongError:
                    return found | {name: [OVER, None]}
                seconds.append(time.perf_counter() - began)
            taken.append((seconds[0], min(seconds[STEPS:])))
        found[name] = [statistics.mean(each) for each in zip(*taken, strict=True)]
        if name == "seconds":
            found["settled seconds"] = statistics.mean(map(settled, functions))
    return found


def heard(function: Any) -> str:
    """Call `function`; gives the warnings that a compiled function runs eagerly."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        function()
    messages = [str(each.message) for each in said]
    return "\n".join(each for each in messages if "eagerly" in each)


def _in_numpy(found: dict[str, Any]) -> dict[str, Any]:
    import torch

    return {name: torch.as_tensor(each).detach().float().numpy() for name, each in found.items()}


def write(into: Path, numbers: dict[str, Any], facts: dict[str, Any]) -> None:
    """Write what is known so far."""
    import numpy as np

    np.savez(into / "numbers.npz", **{name: np.asarray(each) for name, each in numbers.items()})
    (into / "facts.json").write_text(json.dumps(facts, indent=1))


if __name__ == "__main__":
    main(*sys.argv[1:])
