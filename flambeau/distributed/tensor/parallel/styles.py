"""Ways to shard a layer over devices: the placements of its parameters, inputs and outputs.

All tensors are global, whatever part a device holds, so the incoming layouts and
``use_local_output`` have no effect here; the desired layouts are sharding constraints.
"""

from __future__ import annotations

import contextlib
import fnmatch
from collections.abc import Iterator, Mapping
from typing import Any

from flambeau.core.values.tensor import Tensor
from flambeau.distributed.device_mesh import DeviceMesh, as_mesh
from flambeau.distributed.tensor.modules import distribute, replicate
from flambeau.distributed.tensor.placements import Placement, Replicate, Shard
from flambeau.distributed.tensor.spreading import constrain
from flambeau.nn.module import Module
from flambeau.nn.modules.linear import Linear
from flambeau.nn.modules.sparse import Embedding

__all__ = [
    "ColwiseParallel", "ParallelStyle", "PrepareModuleInput", "PrepareModuleInputOutput",
    "PrepareModuleOutput", "RowwiseParallel", "SequenceParallel", "loss_parallel",
    "parallelize_module",
]  # fmt: skip


class ParallelStyle:
    """A way to shard a module over a mesh of one dimension."""

    def apply(self, module: Module, mesh: DeviceMesh) -> None:
        """Place the module's parameters, and register the hooks that shard its activations."""
        raise NotImplementedError


class _Divided(ParallelStyle):
    """Inputs and outputs with one layout each."""

    inputs: Placement
    outputs: Placement

    def apply(self, module: Module, mesh: DeviceMesh) -> None:
        """See `ParallelStyle.apply`."""
        self.place(module, mesh)
        _on_inputs(module, mesh, lambda args: _all(args, mesh, self.inputs))
        module.register_forward_hook(lambda _, args, output: _all(output, mesh, self.outputs))

    def place(self, module: Module, mesh: DeviceMesh) -> None:
        """Place the module's parameters."""
        raise NotImplementedError


class ColwiseParallel(_Divided):
    """Each device computes some outputs of a `Linear`, or some columns of an `Embedding`.

    Args:
        input_layouts: The layout of incoming inputs; accepted for compatibility.
        output_layouts: The layout of the output; by default sharded along its last dimension.
        use_local_output: Accepted for compatibility: tensors are global.
    """

    inputs: Placement = Replicate()

    def __init__(
        self,
        *,
        input_layouts: Placement | None = None,
        output_layouts: Placement | None = None,
        use_local_output: bool = True,
    ) -> None:
        self.outputs = Shard(-1) if output_layouts is None else output_layouts

    def place(self, module: Module, mesh: DeviceMesh) -> None:
        """See `_Divided.place`."""
        _check_kind(self, module)
        dim = 0 if isinstance(module, Linear) else 1
        for name, each in module.named_parameters(recurse=False):
            distribute(each, mesh, [Shard(dim)], name)


class RowwiseParallel(_Divided):
    """Each device uses some inputs of a `Linear`, or some rows of an `Embedding`.

    Args:
        input_layouts: The layout of incoming inputs; accepted for compatibility.
        output_layouts: The layout of the sum over the devices; by default replicated.
        use_local_output: Accepted for compatibility: tensors are global.
    """

    inputs: Placement = Shard(-1)

    def __init__(
        self,
        *,
        input_layouts: Placement | None = None,
        output_layouts: Placement | None = None,
        use_local_output: bool = True,
    ) -> None:
        self.outputs = Replicate() if output_layouts is None else output_layouts

    def place(self, module: Module, mesh: DeviceMesh) -> None:
        """See `_Divided.place`."""
        _check_kind(self, module)
        if isinstance(module, Embedding):
            self.inputs = Replicate()
        for name, each in module.named_parameters(recurse=False):
            cut = Shard(0) if isinstance(module, Embedding) else Shard(1)
            distribute(each, mesh, [Replicate() if name == "bias" else cut], name)


class SequenceParallel(_Divided):
    """Each device computes a part of the sequence; for normalization and dropout.

    Args:
        sequence_dim: The dimension of the sequence.
        use_local_output: Accepted for compatibility: tensors are global.
    """

    def __init__(self, *, sequence_dim: int = 1, use_local_output: bool = False) -> None:
        self.inputs = self.outputs = Shard(sequence_dim)

    def place(self, module: Module, mesh: DeviceMesh) -> None:
        """See `_Divided.place`."""
        replicate(module, mesh)


class PrepareModuleInput(ParallelStyle):
    """Shards the inputs of a module.

    Args:
        input_layouts: The layouts of incoming inputs; accepted for compatibility.
        desired_input_layouts: A placement for each input, or ``None`` to leave it unchanged.
        input_kwarg_layouts: Like ``input_layouts``, by name.
        desired_input_kwarg_layouts: A placement for inputs by name.
        use_local_output: Accepted for compatibility: tensors are global.
    """

    def __init__(
        self,
        *,
        input_layouts: Any = None,
        desired_input_layouts: Any = None,
        input_kwarg_layouts: dict[str, Placement] | None = None,
        desired_input_kwarg_layouts: dict[str, Placement] | None = None,
        use_local_output: bool = False,
    ) -> None:
        self.wanted: tuple[Any, ...] = _as_tuple(desired_input_layouts)
        self.by_name: dict[str, Placement] = desired_input_kwarg_layouts or {}

    def apply(self, module: Module, mesh: DeviceMesh) -> None:
        """See `ParallelStyle.apply`."""

        def prepare(_: Module, args: Any, kwargs: dict[str, Any]) -> Any:
            named = {k: _one(v, mesh, self.by_name.get(k)) for k, v in kwargs.items()}
            return _each(args, mesh, self.wanted), named

        module.register_forward_pre_hook(prepare, with_kwargs=True)


class PrepareModuleOutput(ParallelStyle):
    """Shards the outputs of a module.

    Args:
        output_layouts: The layouts of the module's outputs; accepted for compatibility.
        desired_output_layouts: A placement for each output.
        use_local_output: Accepted for compatibility: tensors are global.
    """

    def __init__(
        self, *, output_layouts: Any, desired_output_layouts: Any, use_local_output: bool = True
    ) -> None:
        self.wanted: tuple[Any, ...] = _as_tuple(desired_output_layouts)

    def apply(self, module: Module, mesh: DeviceMesh) -> None:
        """See `ParallelStyle.apply`."""

        def prepare(_: Module, args: Any, output: Any) -> Any:
            if isinstance(output, Tensor):
                return _one(output, mesh, self.wanted[0] if self.wanted else None)
            return type(output)(_each(output, mesh, self.wanted))

        module.register_forward_hook(prepare)


class PrepareModuleInputOutput(ParallelStyle):
    """`PrepareModuleInput` and `PrepareModuleOutput` combined.

    Args:
        **layouts: The arguments of both.
    """

    def __init__(self, **layouts: Any) -> None:
        local = layouts.pop("use_local_input", False)
        outputs = {each: layouts.pop(each) for each in [*layouts] if "output" in each}
        self.parts = (
            PrepareModuleInput(**layouts, use_local_output=local),
            PrepareModuleOutput(**outputs),
        )

    def apply(self, module: Module, mesh: DeviceMesh) -> None:
        """See `ParallelStyle.apply`."""
        for each in self.parts:
            each.apply(module, mesh)


def parallelize_module(
    module: Module,
    device_mesh: Any = None,
    parallelize_plan: ParallelStyle | Mapping[str, ParallelStyle] | None = None,
    *,
    src_data_rank: int | None = 0,
) -> Module:
    """Shard a module, or its submodules, over a mesh of one dimension.

    Args:
        module: The module; its parameters stay the same objects.
        device_mesh: A mesh of one dimension, or a slice of one dimension; by default all devices.
        parallelize_plan: A style, or styles by module paths, in which ``*`` matches any characters.
        src_data_rank: Accepted for compatibility.

    Returns:
        ``module``. Parameters without a style are replicated.

    Raises:
        ValueError: The mesh has several dimensions, or a path matches no module.
        NotImplementedError: A style does not support modules of this kind.
    """
    mesh = as_mesh(device_mesh)
    if mesh.ndim != 1:
        raise ValueError(
            f"Tensor Parallel only accepts a 1D DeviceMesh, but found {mesh.ndim}D: {mesh}; take a "
            f"slice, such as mesh[{mesh.mesh_dim_names[-1]!r}]"
        )
    plan = parallelize_plan or {}
    if isinstance(plan, ParallelStyle):
        plan = {"": plan}
    found = dict(module.named_modules())
    for path, style in plan.items():
        chosen = [name for name in found if fnmatch.fnmatchcase(name, path)]
        if not chosen:
            some = ", ".join([*found][1:6])
            raise ValueError(f"the path {path!r} matches no module; there are {some} and others")
        for name in chosen:
            style.apply(found[name], mesh)
    replicate(module, mesh)
    return module


@contextlib.contextmanager
def loss_parallel() -> Iterator[None]:
    """A block without effect: XLA computes losses of sharded logits in parts."""
    yield


def _check_kind(style: ParallelStyle, module: Module) -> None:
    if not isinstance(module, Linear | Embedding):
        raise NotImplementedError(
            f"{type(style).__name__} currently only support nn.Linear and nn.Embedding! got "
            f"{type(module).__name__}; place its parameters by flambeau.shard()"
        )


def _on_inputs(module: Module, mesh: DeviceMesh, change: Any) -> None:
    module.register_forward_pre_hook(lambda _, args: change(args))


def _one(value: Any, mesh: DeviceMesh, placement: Placement | None) -> Any:
    if placement is None or not isinstance(value, Tensor):
        return value
    return constrain(value, mesh, placement)


def _all(values: Any, mesh: DeviceMesh, placement: Placement) -> Any:
    if isinstance(values, Tensor):
        return _one(values, mesh, placement)
    return type(values)(_one(each, mesh, placement) for each in values)


def _each(values: Any, mesh: DeviceMesh, wanted: tuple[Placement | None, ...]) -> Any:
    rest = (None,) * (len(values) - len(wanted))
    return tuple(_one(*pair) for pair in _paired(values, mesh, (*wanted, *rest)))


def _paired(values: Any, mesh: DeviceMesh, wanted: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    for value, placement in zip(values, wanted, strict=False):
        yield value, mesh, placement


def _as_tuple(layouts: Any) -> tuple[Any, ...]:
    if layouts is None:
        return ()
    return tuple(layouts) if isinstance(layouts, tuple | list) else (layouts,)
