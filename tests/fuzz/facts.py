"""What PyTorch does while a program runs and its text does not show: aliasing, strides, sizes.

Some documented differences are about memory: PyTorch expands a gradient without copying it, leaves
a result non-contiguous, or gives a tensor more memory. Whether a program meets one of them follows
from the tensors that it makes, so it is run once more and watched.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from tests.fuzz.observation import FILE, observe
from tests.fuzz.program import Program

EXPANDED_WRITTEN = "a tensor whose elements share memory is written to"
COPY_WRITTEN = "a copy that reshaping a non-contiguous result gave is written to"
RESIZED = "a tensor is resized to hold a result"
READ_AND_WRITTEN = "a write reads other elements of the memory that it overwrites"
SAVED_WRITTEN = "a write through data or detach()"
HOOKED_WRITTEN = "a view with a hook is written to, or its base"
VIEW_REFUSED = "a write to a view is refused as one to a leaf"
DRAWN_TRANSPOSED = "numbers are drawn into a transposed view"
DRAWN_WITH_GAPS = "numbers are drawn into a view with gaps"

IN_PLACE = re.compile(r"^(?!__)\w*[^_]_$|^__(i[a-z]+|setitem)__$")
# These read elements at other places than those that they write.
MOVING = re.compile(r"scatter|index_|put_|mm_|addr_")
# These write no elements.
FLAGS = {"requires_grad_", "detach_", "retain_grad_"}
DRAWS = re.compile(r"(uniform|normal|bernoulli|random|exponential|cauchy|geometric)_$|rand\w*_like")
RESHAPING = {"flatten", "reshape", "ravel", "contiguous", "view_as"}


def facts(program: Program) -> set[str]:
    """The facts that hold of a program, run by PyTorch."""
    with Watch() as watch:
        observe(program, torch)
    for tensor, version in watch.hooked:
        if tensor._version != version:
            watch.found.add(HOOKED_WRITTEN)
    return watch.found


class Watch(TorchFunctionMode):
    """Sees each function that a program calls, with what it takes and gives."""

    def __init__(self) -> None:
        super().__init__()
        self.found: set[str] = set()
        self.hooked: list[tuple[Any, int]] = []
        # Tensors are kept, so that no memory and no id is used twice.
        self._seen: dict[int, Any] = {}
        self._expanded: set[int] = set()
        self._copies: set[int] = set()
        self._untaped: set[int] = set()

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Run the function, and note what is known before and after."""
        kwargs = kwargs or {}
        name = name_of(function)
        operands = list(tensors((args, kwargs)))
        targets = self._targets(name, args, kwargs)
        if DRAWS.search(name):
            self.found.update(map(drawn, operands))
        for target in targets:
            self._note_write(name, target, operands)
        shapes = [tuple(each.shape) for each in targets]
        try:
            result = function(*args, **kwargs)
        except RuntimeError as error:
            is_view = any(each._base is not None for each in targets)
            if is_view and "a leaf Variable that requires grad" in str(error):
                self.found.add(VIEW_REFUSED)
            raise
        if "out" in kwargs and shapes != [tuple(each.shape) for each in targets]:
            self.found.add(RESIZED)
        results = list(tensors(result))
        self._note_result(name, operands, results)
        if name in ("data", "detach") and sys._getframe(1).f_code.co_filename == FILE:
            self._untaped.update(map(memory_of, results))
        return result

    def _targets(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        if kwargs.get("out") is not None:
            return list(tensors(kwargs["out"]))
        writes = IN_PLACE.match(name) and name not in FLAGS
        return list(tensors(args[:1])) if writes or kwargs.get("inplace") else []

    def _note_write(self, name: str, target: Any, operands: list[Any]) -> None:
        memory = memory_of(target)
        if memory in self._expanded:
            self.found.add(EXPANDED_WRITTEN)
        if memory in self._copies:
            self.found.add(COPY_WRITTEN)
        if memory in self._untaped and not target.requires_grad:
            self.found.add(SAVED_WRITTEN)
        sharing = [each for each in operands if memory_of(each) == memory]
        moves = MOVING.search(name) is not None and len(sharing) > 1
        if moves or any(place(each) != place(target) for each in sharing):
            self.found.add(READ_AND_WRITTEN)

    def _note_result(self, name: str, operands: list[Any], results: list[Any]) -> None:
        if name == "register_hook" and operands[0]._base is not None:
            self.hooked.append((operands[0], operands[0]._version))
        for each in results:
            if any(
                step == 0 and size > 1 for step, size in zip(each.stride(), each.shape, strict=True)
            ):
                self._expanded.add(memory_of(each))
            if name in RESHAPING and operands and self._is_copy(operands[0], each):
                self._copies.add(memory_of(each))
        for each in (*operands, *results):
            self._seen[id(each)] = each

    def _is_copy(self, source: Any, result: Any) -> bool:
        is_own = source._base is None or id(source._base) not in self._seen
        return is_own and not source.is_contiguous() and memory_of(source) != memory_of(result)


def drawn(tensor: Any) -> str:
    """How the elements of a tensor lie in memory that numbers are drawn into."""
    if tensor.is_contiguous():
        return ""
    is_transposed = list(tensor.stride()) != sorted(tensor.stride(), reverse=True)
    return DRAWN_TRANSPOSED if is_transposed else DRAWN_WITH_GAPS


def name_of(function: Callable[..., Any]) -> str:
    """The name of a function or method; that of the attribute, of one that reads an attribute."""
    if function.__name__ == "__get__":
        return function.__self__.__name__  # pyright: ignore[reportFunctionMemberAccess]
    return function.__name__


def tensors(value: Any) -> Iterator[Any]:
    """All tensors in nested tuples, lists and dictionaries."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, tuple | list):
        for each in value:
            yield from tensors(each)
    elif isinstance(value, dict):
        yield from tensors(list(value.values()))


def memory_of(tensor: Any) -> int:
    with torch._C.DisableTorchFunction():
        return tensor.untyped_storage()._cdata


def place(tensor: Any) -> tuple[Any, ...]:
    with torch._C.DisableTorchFunction():
        return tensor.storage_offset(), tuple(tensor.shape), tensor.stride()
