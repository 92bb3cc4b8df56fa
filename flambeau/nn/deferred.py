"""Materializing a module built on the meta device, with the values of a normal build."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Self

from flambeau.core.devices.device import CPU, as_device, device
from flambeau.core.programs import finishing
from flambeau.core.support import world
from flambeau.core.values import plan
from flambeau.core.values.cell import Cell, is_abstract
from flambeau.core.values.tensor import Tensor
from flambeau.nn.common_types import DeviceLike
from flambeau.nn.parameter import UninitializedTensorMixin, is_lazy
from flambeau.nn.registry import TABLES
from flambeau.nn.traversal import Traversal


class DeferredInitialization(Traversal):
    """The part of `Module` that runs a deferred initialization."""

    def materialize(self, device: DeviceLike = None) -> Self:
        """Give every tensor on the meta device the elements that it would have been built with.

        For modules built under ``with device("meta"):``, which remember how each tensor would have
        been filled: the operators, initializers, in-place writes and random draws. The tensors
        equal those of a build on ``device`` after the same seed, including non-persistent and
        computed buffers. Tensors are computed one at a time and stored together: an error or an
        interrupt leaves the module unchanged. Tensors that already have elements, such as those
        from ``load_state_dict(..., assign=True)``, are kept, and do not change the random numbers
        of the others. If the constructor names a device for a random draw, the numbers are drawn at
        once, from that device's generator.

        Casts, copies and repeated initializations after the block are remembered too. Gradients on
        the meta device are dropped.

        Args:
            device: The device of the tensors; by default the CPU.

        Returns:
            The module itself. Parameters stay the same objects.

        Raises:
            RuntimeError: A tensor was not made under ``with device("meta"):``, so its
                initialization is not known; no tensor is changed then.

        >>> import flambeau
        >>> from flambeau import nn
        >>> _ = flambeau.manual_seed(0)
        >>> with flambeau.device("meta"):
        ...     layer = nn.Linear(2, 1)
        >>> _ = flambeau.manual_seed(0)
        >>> flambeau.equal(layer.materialize().weight, nn.Linear(2, 1).weight)
        True
        """
        where = CPU if device is None else as_device(device)
        if where.type == "meta":
            raise RuntimeError("materialize() needs a device that holds elements, not 'meta'")
        missing = {name: tensor for name, tensor in _tensors_of(self) if tensor.is_meta}
        unknown = [
            name
            for name, tensor in missing.items()
            if not (is_lazy(tensor) or plan.has_plan(tensor._cell.array))
        ]
        if unknown:
            raise RuntimeError(
                f"cannot materialize {', '.join(unknown)}: only modules built under "
                "`with flambeau.device('meta'):` can be materialized; use to_empty() and fill it, "
                "or load_state_dict(..., assign=True)"
            )
        cells = {each._cell: each._cell.array for each in missing.values() if not is_lazy(each)}
        # Computed before any is written, so that an interrupt leaves the module unchanged.
        arrays = {cell: plan.carry_out(planned, where) for cell, planned in cells.items()}

        def write(_: object) -> None:
            for tensor in missing.values():
                _fill(tensor, arrays, where)
            world.bump()

        finishing.finish(write)
        return self


def _fill(tensor: Tensor, arrays: Mapping[Cell, object], where: device) -> None:
    cell = tensor._cell
    if isinstance(tensor, UninitializedTensorMixin):
        if tensor.is_meta:
            tensor.data = tensor.emptied(where).data
    # A tied tensor may have been filled under its other name.
    elif is_abstract(cell.array):
        cell.write(arrays[cell])
    if tensor._grad is not None and tensor._grad.is_meta:
        tensor.grad = None


def _tensors_of(root: Traversal) -> Iterator[tuple[str, Tensor]]:
    """Every tensor of a tree of modules, including plain attributes, by its path."""
    for path, module in root.named_modules():
        members = {**vars(module), **module._parameters, **module._buffers}
        for name, value in members.items():
            if name not in TABLES:
                yield from _tensors_in(f"{path}.{name}" if path else name, value)


def _tensors_in(path: str, value: object) -> Iterator[tuple[str, Tensor]]:
    """The tensors in a plain attribute: the value itself, or members of lists and dictionaries."""
    if isinstance(value, Tensor):
        yield path, value
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from _tensors_in(f"{path}[{key!r}]", each)
    elif isinstance(value, list | tuple):
        for i, each in enumerate(value):
            yield from _tensors_in(f"{path}[{i}]", each)
    elif isinstance(value, DeferredInitialization):
        yield from ((f"{path}.{name}", tensor) for name, tensor in _tensors_of(value))
