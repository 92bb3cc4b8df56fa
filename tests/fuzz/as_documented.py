"""PyTorch without what flambeau does otherwise on purpose: its documented differences of memory.

PyTorch expands gradients without copying them, leaves some results non-contiguous, mixes what a
write reads and overwrites, lets writes through ``data`` reach saved values, gives a resized tensor
its old memory, and draws in the order of memory. A program whose elements differ is run by PyTorch
once more, with copies in these places; what then agrees is a documented difference.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from tests.fuzz.observation import Observation, observe
from tests.fuzz.program import Program

HOOKED_WRITTEN = "a view with a hook is written to, or its base"
VIEW_BEFORE = "a tensor gets requires_grad after a view of it was made"
VIEW_REFUSED = "a write to a view is refused as one to a leaf"

IN_PLACE = re.compile(r"^(?!__)\w*[^_]_$|^__(i[a-z]+|setitem)__$")
# These write no elements.
FLAGS = {"requires_grad_", "detach_"}
DRAWS = re.compile(r"(uniform|normal|bernoulli|random|exponential|cauchy|geometric)_$|rand\w*_like")


@functools.lru_cache(maxsize=16)
def as_documented(program: Program) -> tuple[Observation, set[str]]:
    """What PyTorch gives with its memory as documented, and the facts that hold of its run."""
    keeping = torch.autograd.graph.saved_tensors_hooks(copy_of_saved, lambda saved: saved)
    with keeping, AsDocumented() as mode:
        seen = observe(program, torch)
    for tensor, version in mode.hooked:
        if tensor._version != version:
            mode.found.add(HOOKED_WRITTEN)
    return seen, mode.found


def copy_of_saved(saved: Any) -> Any:
    return saved.detach().clone()


class AsDocumented(TorchFunctionMode):
    """Copies what a function takes or gives where flambeau's memory is another one."""

    def __init__(self) -> None:
        super().__init__()
        self.found: set[str] = set()
        self.hooked: list[tuple[Any, int]] = []
        self._views: list[Any] = []
        # The memory that the program has, and a tensor in it, so that no memory is used twice.
        self._memory: dict[int, Any] = {}

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Run the function on copies, or copy its results."""
        name, kwargs = name_of(function), dict(kwargs or {})
        writes = bool(IN_PLACE.match(name)) and name not in FLAGS
        targets = list(tensors(kwargs.get("out"), args[:1] if writes else ()))
        self._note(name, args)
        given = list(tensors(args, kwargs))
        self._memory.update((memory_of(each), each) for each in given)
        if targets:
            args, kwargs = apart(args, kwargs, targets)
        if DRAWS.search(name) and not given[0].is_contiguous():
            drawn = function(given[0].detach().contiguous(), *args[1:], **kwargs)
            return args[0].copy_(drawn) if writes else drawn
        try:
            result = resized(function, args, kwargs) if "out" in kwargs else None
            result = function(*args, **kwargs) if result is None else result
        except RuntimeError as error:
            is_view = any(each._base is not None for each in targets)
            if is_view and "a leaf Variable that requires grad" in str(error):
                self.found.add(VIEW_REFUSED)
            raise
        result = result if targets else mapped(self._own, result)
        self._memory.update((memory_of(each), each) for each in tensors(result))
        self._views += [each for each in tensors(result) if each._base is not None]
        return result

    def _note(self, name: str, args: tuple[Any, ...]) -> None:
        if name == "register_hook" and args[0]._base is not None:
            self.hooked.append((args[0], args[0]._version))
        if name == "requires_grad_" and any(each._base is args[0] for each in self._views):
            self.found.add(VIEW_BEFORE)

    def _own(self, result: Any) -> Any:
        """A result with elements of its own, if it has no memory that the program had before."""
        if result.is_contiguous() or memory_of(result) in self._memory:
            return result
        return result.contiguous()


def apart(args: Any, kwargs: Any, targets: list[Any]) -> tuple[Any, Any]:
    """The arguments of a write, with copies of those that share memory with what it overwrites."""
    overwritten = {memory_of(each) for each in targets}

    def copy(value: Any) -> Any:
        return value.clone() if memory_of(value) in overwritten else value

    if "out" in kwargs:
        others = {key: value for key, value in kwargs.items() if key != "out"}
        return mapped(copy, args), {**mapped(copy, others), "out": kwargs["out"]}
    return (args[0], *mapped(copy, args[1:])), mapped(copy, kwargs)


def resized(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """``out`` with the memory and the shape of the result, if it has another shape."""
    out = kwargs["out"]
    if not isinstance(out, torch.Tensor):
        return None
    result = function(*args, **{**kwargs, "out": torch.empty(0, dtype=out.dtype)})
    return None if result.shape == out.shape else out.set_(result)


def name_of(function: Callable[..., Any]) -> str:
    """The name of a function or method."""
    return getattr(function, "__name__", "")


def mapped(change: Callable[[Any], Any], value: Any) -> Any:
    """Nested tuples, lists and dictionaries with every tensor changed."""
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, dict):
        return {key: mapped(change, each) for key, each in value.items()}
    if isinstance(value, tuple | list):
        # PyTorch's named results are made of one sequence, like tuples.
        return type(value)([mapped(change, each) for each in value])
    return value


def tensors(*values: Any) -> Iterator[Any]:
    """All tensors in nested tuples, lists and dictionaries."""
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, tuple | list):
            yield from tensors(*value)
        elif isinstance(value, dict):
            yield from tensors(*value.values())


def memory_of(tensor: Any) -> int:
    with torch._C.DisableTorchFunction():
        return tensor.untyped_storage()._cdata
