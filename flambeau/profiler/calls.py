"""One call of a model that computes and changes nothing: shapes, operations, and the flow of data.

The call is traced as by `flambeau.compile`, and the trace is undone. If the model asks for values,
a copy of it is called with them.
"""

from __future__ import annotations

import copy
import dataclasses
import threading
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from typing import Any

from flambeau.compile.ahead import dry_run
from flambeau.core.support.modes import modes
from flambeau.core.values.tensor import Tensor
from flambeau.nn.uninitialized import is_lazy
from flambeau.overrides import BaseTorchFunctionMode
from flambeau.profiler import observing
from flambeau.profiler.flops import flops_of
from flambeau.random import fork_rng
from flambeau.utils._pytree import tree_leaves

#: The ends of the flow of data, besides modules' paths.
INPUT, OUTPUT = object(), object()


@dataclasses.dataclass
class Calls:
    """The calls of one module.

    Attributes:
        count: Their number.
        output: The shapes that the first call returned, in its containers.
        flops: The floating-point operations of all calls, nested modules included.
    """

    count: int = 0
    output: Any = None
    flops: int = 0


class _Frame:
    """A running call."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.is_leaf = True
        self.origins: set[Any] = set()


class Watch:
    """Observes one call of a model in this thread.

    Attributes:
        calls: The calls of each module, by path.
        edges: The flow of data between modules that call no others, `INPUT` and `OUTPUT`.
    """

    sees_traces = True

    def __init__(self, model: Any) -> None:
        self.model = model
        self.calls: dict[str, Calls] = {}
        self.edges: dict[tuple[Any, Any], None] = {}
        self._thread = threading.get_ident()
        # A compiled module runs its original module.
        self._paths = {
            id(getattr(each, "_orig_mod", each)): path for path, each in model.named_modules()
        }
        self._frames: list[_Frame] = []
        # For each array, by its identity, the modules that it comes from; the array is held.
        self._origins: dict[int, tuple[Any, frozenset[Any]]] = {}

    def run(self, args: Any, kwargs: Any) -> None:
        """Call the model under observation."""
        self._set_origins((args, kwargs), frozenset([INPUT]))
        observing.add(self)
        try:
            result = self.model(*args, **kwargs)
        finally:
            observing.remove(self)
        self.edges |= {(origin, OUTPUT): None for origin in self._origins_of(result)}
        self._origins.clear()

    def around(self, kind: str, subject: Any, inputs: Any, compute: Callable[[], Any]) -> Any:
        """See `observing.Observer`."""
        if threading.get_ident() != self._thread:
            return compute()
        if kind == "module" and id(subject) in self._paths:
            return self._around_module(self._paths[id(subject)], inputs, compute)
        result = compute()
        if kind == "operator":
            flops = flops_of(subject, inputs, result)
            # A ModuleList is not called, but has the operations of the modules inside it.
            for path in {each for frame in self._frames for each in around(frame.path)}:
                self.calls.setdefault(path, Calls()).flops += flops
            origins = self._origins_of(inputs)
            if self._frames:
                self._frames[-1].origins |= origins
            self._set_origins(result, origins)
        return result

    def _around_module(self, path: str, inputs: Any, compute: Callable[[], Any]) -> Any:
        calls = self.calls.setdefault(path, Calls())
        calls.count += 1
        if self._frames:
            self._frames[-1].is_leaf = False
        frame = _Frame(path)
        frame.origins |= self._origins_of(inputs)
        self._frames.append(frame)
        try:
            result = compute()
        finally:
            self._frames.pop()
        if calls.output is None:
            calls.output = shapes_of(result)
        if frame.is_leaf:
            self.edges |= {(origin, path): None for origin in frame.origins}
            self._set_origins(result, frozenset([path]))
        return result

    def _origins_of(self, value: Any) -> frozenset[Any]:
        found = (self._origins.get(id(array)) for array in _arrays(value))
        return frozenset(chain.from_iterable(each[1] for each in found if each is not None))

    def _set_origins(self, value: Any, origins: frozenset[Any]) -> None:
        for array in _arrays(value):
            self._origins[id(array)] = array, origins


def around(path: str) -> Iterator[str]:
    """A module's path, and those of the modules around it."""
    yield path
    while path:
        path = path.rpartition(".")[0]
        yield path


def _arrays(value: Any) -> list[Any]:
    """The arrays of the Cells in ``value``."""
    cells = [e._cell for e in tree_leaves(value) if is_tensor(e) and not e.is_sparse]
    read = (lambda cell: cell.array) if modes.trace is None else modes.trace.read
    return [read(cell) for cell in cells]


def is_tensor(value: Any) -> bool:
    """Whether ``value`` is a Tensor."""
    return isinstance(value, Tensor)


def shapes_of(value: Any) -> Any:
    """``value`` with the shapes of tensors, and the names of classes for all else."""
    if isinstance(value, Tensor):
        return value.shape
    if isinstance(value, Mapping):
        return {key: shapes_of(each) for key, each in value.items()}
    if isinstance(value, tuple | list):
        return tuple(map(shapes_of, value))
    return "None" if value is None else type(value).__name__


def watched(model: Any, args: Any, kwargs: Any) -> Watch:
    """The observed call of ``model``.

    Raises:
        Exception: The model's own, as in an ordinary call.
    """
    if modes.trace is not None:
        raise RuntimeError("summary() cannot be called inside a compiled function")
    tensors = [*model.parameters(), *model.buffers()]
    shared = {id(each): each.emptied("meta") if is_lazy(each) else each for each in tensors}
    is_any_lazy = any(map(is_lazy, tensors))
    watch = Watch(copy.deepcopy(model, shared) if is_any_lazy else model)
    used = [each for each in tree_leaves((tensors, args, kwargs)) if is_tensor(each)]
    try:
        dry_run(lambda: watch.run(args, kwargs), [e for e in used if not is_lazy(e)])
    except Exception as error:  # noqa: BLE001 (an ordinary call raises it, or gives the values)
        refusal = error
    else:
        return watch
    copies = {id(each): _copied(each) for each in tree_leaves((args, kwargs)) if is_tensor(each)}
    try:
        watch = Watch(copy.deepcopy(model))
        args, kwargs = copy.deepcopy((args, kwargs), copies)
    except Exception:  # noqa: BLE001 (the model cannot be copied)
        raise refusal from None
    with fork_rng(), BaseTorchFunctionMode():
        watch.run(args, kwargs)
    return watch


def _copied(tensor: Tensor) -> Tensor:
    """A leaf with the elements of ``tensor``, which may have a history."""
    return tensor.detach().clone().requires_grad_(tensor.requires_grad)
