"""Running the same scenario on PyTorch and on flambeau, and writing down what happened."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, NamedTuple

Scenario = Callable[[Any, SimpleNamespace], Any]


class Observation(NamedTuple):
    """What a scenario did.

    Attributes:
        outcome: What it returned, in plain Python; or ``("raised", type)``.
        warned: The categories of the warnings, each once.
        message: What the exception said.
    """

    outcome: Any
    warned: list[str]
    message: str


class Entry(NamedTuple):
    """A row of the table: a scenario, and the facts that its error must name."""

    name: str
    run: Scenario
    facts: tuple[str, ...]


class Table(list[Entry]):
    """Scenarios of one topic; used as a decorator, it adds the function.

    A scenario is called with the library and the kit of small modules made from it, and returns
    whatever describes what happened. Facts are words that both libraries' error messages contain.
    """

    def __call__(self, *facts: Any) -> Any:
        if len(facts) == 1 and callable(facts[0]):
            return self._add(facts[0], ())
        return lambda run: self._add(run, facts)

    def _add(self, run: Scenario, facts: tuple[str, ...]) -> Scenario:
        self.append(Entry(run.__name__, run, facts))
        return run


def observe(run: Scenario, lib: Any) -> Observation:
    """Run a scenario on one library."""
    message = ""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            outcome = plain(run(lib, kit(lib)), lib)
        except Exception as error:  # noqa: BLE001 - whatever is raised is what happened
            outcome, message = ("raised", type(error).__name__), str(error)
    return Observation(outcome, sorted({each.category.__name__ for each in caught}), message)


def plain(value: Any, lib: Any) -> Any:
    """``value`` in plain Python, so that the two libraries' values can be compared."""
    if isinstance(value, lib.Tensor):
        kind = "Parameter" if isinstance(value, lib.nn.Parameter) else "Tensor"
        values = "meta" if value.is_meta else value.detach().tolist()
        return kind, dtype_name(value.dtype), tuple(value.shape), values
    if isinstance(value, lib.nn.Module):
        return type(value).__name__
    if isinstance(value, lib.dtype):
        return dtype_name(value)
    if isinstance(value, type):
        return value.__name__
    if isinstance(value, Mapping):
        return [(key, plain(each, lib)) for key, each in value.items()]
    if isinstance(value, list | tuple):
        return [plain(each, lib) for each in value]
    if isinstance(value, set | frozenset):
        return sorted(plain(each, lib) for each in value)
    return value


def compare(entry: Entry, theirs: Any, ours: Any) -> None:
    """Fail unless a scenario has the same outcome in both libraries, and errors with its facts.

    Warnings are left out.
    """
    expected, observed = observe(entry.run, theirs), observe(entry.run, ours)
    try:
        assert_same(observed.outcome, expected.outcome)
    except AssertionError as error:
        raise AssertionError(f"{error}\n{expected}\n{observed}") from None
    for fact in entry.facts:
        assert fact in expected.message
        assert fact in observed.message


def assert_same(observed: Any, expected: Any) -> None:
    """Compare nested outcomes; numbers to the precision of float32."""
    if isinstance(expected, list | tuple):
        assert isinstance(observed, list | tuple)
        assert len(observed) == len(expected), (observed, expected)
        for one, other in zip(observed, expected, strict=True):
            assert_same(one, other)
    elif isinstance(expected, float | complex) and not isinstance(observed, bool):
        is_nan = expected != expected
        assert (
            observed != observed
            if is_nan
            else abs(observed - expected) <= 1e-6 * max(1.0, abs(expected))
        ), (observed, expected)
    else:
        assert type(observed) is type(expected), (observed, expected)
        assert observed == expected


def dtype_name(dtype: Any) -> str:
    """A dtype's name without its library's."""
    return str(dtype).rpartition(".")[2]


def recorder(seen: list[Any], label: str = "hook", result: Any = None) -> Callable[..., Any]:
    """A hook that notes what it is given, the module aside."""

    def hook(module: Any, *given: Any) -> Any:
        seen.append((label, *given))
        return result

    return hook


def leaf(lib: Any, *values: float) -> Any:
    """An input that requires grad."""
    return lib.tensor(values or (1.0, 2.0), requires_grad=True)


def kit(lib: Any) -> SimpleNamespace:
    """Small modules to play with, built on one library."""
    nn = lib.nn

    class Scale(nn.Module):
        """One parameter: multiplies by it."""

        def __init__(self, *values: float) -> None:
            super().__init__()
            self.weight = nn.Parameter(lib.tensor(values or (2.0, 3.0)))

        def forward(self, input: Any) -> Any:
            return input * self.weight

    class Shift(nn.Module):
        """One persistent and one other buffer: adds the first."""

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("offset", lib.tensor([1.0, 1.0]))
            self.register_buffer("calls", lib.tensor(0), persistent=False)

        def forward(self, input: Any) -> Any:
            return input + self.offset

    class Net(nn.Module):
        """Two layers, the second without parameters, and a plain attribute."""

        def __init__(self) -> None:
            super().__init__()
            self.first = Scale()
            self.second = Shift()
            self.width = 2

        def forward(self, input: Any) -> Any:
            return self.second(self.first(input))

    class Echo(nn.Module):
        """Returns its arguments: one as it is, several as a tuple, keywords with them."""

        def forward(self, *args: Any, **kwargs: Any) -> Any:
            if kwargs:
                return (*args, kwargs)
            return args[0] if len(args) == 1 else args

    class Calls(nn.Module):
        """Calls a function."""

        def __init__(self, function: Callable[..., Any]) -> None:
            super().__init__()
            self.function = function

        def forward(self, *args: Any, **kwargs: Any) -> Any:
            return self.function(*args, **kwargs)

    class Failing(nn.Module):
        """Always raises."""

        def forward(self, *args: Any, **kwargs: Any) -> Any:
            raise ValueError("forward failed")

    class Deep(nn.Module):
        """Net within a module with a parameter of its own."""

        def __init__(self) -> None:
            super().__init__()
            self.bias = nn.Parameter(lib.tensor([1.0]))
            self.net = Net()

        def forward(self, input: Any) -> Any:
            return self.net(input) + self.bias

    classes = (Scale, Shift, Net, Echo, Calls, Failing, Deep)
    return SimpleNamespace(**{each.__name__: each for each in classes})
