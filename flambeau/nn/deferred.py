"""Filling a module that was built on the meta device, as building it elsewhere would have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from flambeau.core import plan, world
from flambeau.core.device import CPU, as_device
from flambeau.core.tensor import Tensor
from flambeau.nn.parameter import is_lazy


class DeferredInitialization:
    """The part of `Module` that makes up for an initialization that did not take place."""

    def materialize(self, device: Any = None) -> Any:
        """Give every tensor on the meta device the elements it would have been built with.

        For modules built under ``with device("meta"):``, which remember how each tensor would have
        been filled: by which operators, initializers, in-place writes and random draws. Building the
        module on ``device`` after the same seed would have given the same tensors, buffers that
        are not saved and computed ones included. One tensor is made at a time. What has elements
        already, such as what ``load_state_dict(..., assign=True)`` brought, stays as it is, and
        takes nothing from the random numbers of the others.

        Args:
            device: Where to put the tensors; by default the CPU.

        Returns:
            The module itself. Parameters stay the same objects.

        Raises:
            RuntimeError: A tensor was not made under ``with device("meta"):``, so nothing is known
                of how to fill it; no tensor is changed then.

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
            if not isinstance(tensor._cell.array, plan.Planned)
        ]
        if unknown:
            raise RuntimeError(
                f"nothing is known of how to fill {', '.join(unknown)}: only what is built under "
                "`with flambeau.device('meta'):` can be materialized; use to_empty() and fill it, "
                "or load_state_dict(..., assign=True)"
            )
        for tensor in missing.values():
            cell = tensor._cell
            # A tied tensor may have been filled under its other name.
            if isinstance(cell.array, plan.Planned):
                cell.write(plan.carry_out(cell.array, where))
        world.bump()
        return self


def _tensors_of(root: Any) -> Iterator[tuple[str, Tensor]]:
    """Every tensor of a tree of modules, plain attributes included, by its path."""
    for prefix, module in root.named_modules():
        members = {**vars(module), **module._parameters, **module._buffers}
        for name, value in members.items():
            if isinstance(value, Tensor) and not is_lazy(value):
                yield (f"{prefix}.{name}" if prefix else name), value
