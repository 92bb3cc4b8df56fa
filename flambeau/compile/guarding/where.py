"""The places where a compiled function finds and stores values at each call.

A program looks values up at each call instead of being bound to the values of its trace: arguments,
their gradients, attributes, members of containers, results. Each has a place, a `Where`. Globals,
closures and attributes of modules are in `flambeau.compile.guarding.places`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from flambeau.compile.ownership import attributes_of
from flambeau.compile.source import Page
from flambeau.core.support import world
from flambeau.core.support.identity import MISSING
from flambeau.core.values.tensor import Tensor

#: A call, as the leaves of its arguments.
Call = Sequence[Any]


class Where:
    """A place of a value at a call."""

    __slots__ = ()

    def get(self, call: Call = ()) -> Any:
        """The value at a call; `MISSING` if there is none."""
        raise NotImplementedError(f"{type(self).__name__} cannot be looked up")

    def set(self, value: Any, call: Call = ()) -> None:
        """Set the value."""
        raise NotImplementedError(f"{type(self).__name__} cannot be set")

    def read(self, call: Call = ()) -> Any:
        """The array of the tensor at the place."""
        return self.get(call)._read()

    def expression(self, page: Page) -> str:
        """The Python expression for the value, given the ``leaves`` of a call."""
        return f"{page.name(self.get)}(leaves)"

    def setting(self, page: Page, value: str) -> str:
        """The line of Python that sets the value to the expression ``value``."""
        return f"{page.name(self.set)}({value}, leaves)"


@dataclass(frozen=True, slots=True, eq=False)
class Itself(Where):
    """A tensor that is the same at each call."""

    tensor: Tensor

    def get(self, call: Call = ()) -> Tensor:
        """The tensor."""
        return self.tensor

    def expression(self, page: Page) -> str:
        return page.name(self.tensor, "x")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Itself) and self.tensor is other.tensor

    def __hash__(self) -> int:
        return id(self.tensor)


@dataclass(frozen=True, slots=True)
class Argument(Where):
    """An argument, by its position among the leaves."""

    position: int

    def get(self, call: Call = ()) -> Any:
        """The argument."""
        return call[self.position]

    def read(self, call: Call = ()) -> Any:
        """The array of the argument, or the number."""
        value = call[self.position]
        return value._read() if isinstance(value, Tensor) else value

    def expression(self, page: Page) -> str:
        return f"leaves[{self.position}]"

    def __str__(self) -> str:
        return f"leaves[{self.position}]"


@dataclass(frozen=True, slots=True)
class Created(Where):
    """A tensor that the call creates, by its number among the results."""

    number: int

    def get(self, call: Call = ()) -> Any:
        """The tensor, given the results of a call."""
        return call[self.number]

    def expression(self, page: Page) -> str:
        return f"t{self.number}"


@dataclass(frozen=True, slots=True)
class Gradient(Where):
    """The ``.grad`` of a tensor."""

    of: Where

    def get(self, call: Call = ()) -> Any:
        """The gradient now."""
        return self.of.get(call)._grad

    def set(self, value: Any, call: Call = ()) -> None:
        """Set the gradient."""
        self.of.get(call)._grad = value
        world.bump_gradients()

    def expression(self, page: Page) -> str:
        return f"{self.of.expression(page)}._grad"

    def setting(self, page: Page, value: str) -> str:
        """See `Where.setting`; the caller adds one `world.bump_gradients` for all gradients."""
        return f"{self.expression(page)} = {value}"


@dataclass(frozen=True, slots=True)
class Flag(Where):
    """The ``requires_grad`` of a tensor."""

    of: Where

    def set(self, value: bool, call: Call = ()) -> None:
        """Set the flag, if it differs."""
        tensor = self.of.get(call)
        if tensor._requires_grad is not value:
            tensor._requires_grad = value
            world.bump()


@dataclass(frozen=True, slots=True)
class OnTape(Where):
    """The position of a tensor on the tape: a node, the number of its output, and a flag."""

    of: Where

    def set(self, value: tuple[Any, int, bool], call: Call = ()) -> None:
        """Set the position; without a node the tensor becomes a leaf."""
        tensor = self.of.get(call)
        if value[0] is None or not tensor._requires_grad:
            world.bump()
        tensor._grad_fn, tensor._output_nr, tensor._requires_grad = value
        tensor._rebased += value[0] is not None


@dataclass(frozen=True, slots=True)
class Hook(Where):
    """The hooks of a tensor, to which a method such as ``register_hook`` adds one."""

    of: Where
    method: str

    def set(self, value: Callable[..., Any] | None, call: Call = ()) -> None:
        """Add a hook; ``None`` for a method that takes none."""
        tensor = self.of.get(call)
        # A tensor that was detached after it got the hook keeps the hook.
        requires_grad, tensor._requires_grad = tensor._requires_grad, True
        getattr(tensor, self.method)(*(() if value is None else (value,)))
        tensor._requires_grad = requires_grad


@dataclass(frozen=True, slots=True)
class Item(Where):
    """A member of a list, a tuple or a dictionary.

    Attributes:
        of: The place of the container.
        key: The key or index of the member.
        default: Gives a value in place of a missing member.
    """

    of: Where
    key: Any
    default: Callable[[], Any] | None = None

    def get(self, call: Call = ()) -> Any:
        """The member now."""
        return self.found_in(self.of.get(call))

    def found_in(self, container: Any) -> Any:
        """The member of ``container``."""
        try:
            if isinstance(container, dict):
                # A read must not insert the default of a defaultdict.
                value = dict.get(container, self.key, MISSING)
            else:
                value = type(container).__getitem__(container, self.key)
        except (AttributeError, IndexError, TypeError):
            return MISSING
        return self.default() if value is MISSING and self.default is not None else value

    def __str__(self) -> str:
        return f"{self.of}[{self.key!r}]"


@dataclass(frozen=True, slots=True)
class Asked(Where):
    """The answer to a question about an argument or a container.

    Attributes:
        of: The place of the argument or container.
        question: A function that gives the answer, such as ``len``.
        args: The other arguments of the question.
    """

    of: Where
    question: Callable[..., Any]
    args: tuple[Any, ...] = ()

    def get(self, call: Call = ()) -> Any:
        """The answer now."""
        return self.found_in(self.of.get(call))

    def found_in(self, container: Any) -> Any:
        """The answer for ``container``."""
        try:
            return self.question(container, *self.args)
        except TypeError:
            return MISSING

    def __str__(self) -> str:
        return str(self.of)


@dataclass(frozen=True, slots=True)
class Attribute(Where):
    """An attribute of an argument, or of an object of a dataclass."""

    of: Where
    name: str

    def get(self, call: Call = ()) -> Any:
        """The value now."""
        return attributes_of(self.of.get(call)).get(self.name, MISSING)

    def set(self, value: Any, call: Call = ()) -> None:
        """Set the attribute."""
        setattr(self.of.get(call), self.name, value)

    def __str__(self) -> str:
        if isinstance(self.of, Argument):
            return f"the attribute {self.name!r} of an argument"
        return f"{self.of}.{self.name}"
