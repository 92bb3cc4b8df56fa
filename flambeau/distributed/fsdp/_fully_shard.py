"""Parameters, gradients and optimizer state sharded over the devices that share a batch.

A parameter is sharded. Since activations are sharded along the batch, XLA gathers a parameter for
each layer that uses it, and frees it again. XLA would gather an array only once for all uses, so
backward reads each parameter through a barrier.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax

from flambeau.core.support.modes import modes
from flambeau.core.tape.packing import Hooks
from flambeau.core.values.tensor import Tensor
from flambeau.distributed.batches import divided
from flambeau.distributed.device_mesh import DeviceMesh, as_mesh
from flambeau.distributed.fsdp.api import MixedPrecisionPolicy
from flambeau.distributed.fsdp.precision import compute_in
from flambeau.distributed.own_rows import own_rows, shared
from flambeau.distributed.tensor.modules import distribute, members
from flambeau.distributed.tensor.placements import Placement, Replicate, Shard
from flambeau.distributed.tensor.spreading import lies, put
from flambeau.nn.module import Module
from flambeau.nn.parameter import Parameter

__all__ = [
    "CPUOffloadPolicy", "FSDPModule", "OffloadPolicy", "UnshardHandle",
    "fully_shard",
]  # fmt: skip


_AS_THEY_ARE = MixedPrecisionPolicy()


@dataclasses.dataclass
class OffloadPolicy:
    """Parameters stay on the devices."""


@dataclasses.dataclass
class CPUOffloadPolicy(OffloadPolicy):
    """Parameters in host memory between steps, where they always are on CPUs."""

    pin_memory: bool = True


class UnshardHandle:
    """The handle returned by `FSDPModule.unshard`: there is nothing to wait for."""

    def wait(self) -> None:
        """Return at once."""


class FSDPModule:
    """The methods that `fully_shard` adds to a module: hints for communication; XLA decides."""

    def unshard(self, async_op: bool = False) -> UnshardHandle | None:
        """Accepted: layers gather their parameters automatically."""
        return UnshardHandle() if async_op else None

    def reshard(self) -> None:
        """Accepted: parameters are always sharded."""

    def _accept(self, *args: Any, **kwargs: Any) -> None:
        """Accepted: XLA decides when devices communicate."""

    set_is_last_backward = set_requires_gradient_sync = set_requires_all_reduce = _accept
    set_reshard_after_forward = set_reshard_after_backward = set_unshard_in_backward = _accept
    set_modules_to_forward_prefetch = set_modules_to_backward_prefetch = _accept


def fully_shard(
    module: Any,
    *,
    mesh: Any = None,
    reshard_after_forward: bool | int | None = None,
    shard_placement_fn: Callable[[Parameter], Shard | None] | None = None,
    mp_policy: MixedPrecisionPolicy = _AS_THEY_ARE,
    offload_policy: OffloadPolicy | None = None,
    ignored_params: set[Parameter] | None = None,
) -> Any:
    """Shard a module's parameters over the devices that share its batches.

    Parameters stay the same objects; gradients and optimizer state have their shardings. A
    parameter is sharded along its first dimension that the devices divide and that is not sharded
    yet, and replicated if there is none. Buffers are replicated.

    Args:
        module: The module, whose inputs and outputs begin with the dimension of the batch.
        mesh: The devices: one dimension, or two, of which the second shards parameters and the
            first replicates them. By default all devices.
        reshard_after_forward: ``False`` lets compiled steps keep parameters gathered from forward
            to backward: half of the communication, for the memory of the whole module.
        shard_placement_fn: Returns the dimension along which to shard a parameter, as
            ``Shard(dim)``, or ``None`` for the default.
        mp_policy: The dtypes in which the module computes, except modules in it that are sharded
            by themselves.
        offload_policy: None, or `OffloadPolicy`; on CPUs also `CPUOffloadPolicy`.
        ignored_params: Parameters that are replicated on all devices.

    Returns:
        ``module``, which is now an `FSDPModule` too.

    Raises:
        NotImplementedError: A policy requests other memory.
    """
    devices = as_mesh(mesh)
    if isinstance(offload_policy, CPUOffloadPolicy) and devices.device_type != "cpu":
        raise NotImplementedError(
            f"fully_shard() keeps parameters on the devices: there is no CPUOffloadPolicy for "
            f"{devices.device_type!r}; divide them over more devices, or leave it out"
        )
    ignored = set() if ignored_params is None else {*map(id, ignored_params)}
    own: list[Parameter] = []
    for name, tensor in members(module):
        cuts = isinstance(tensor, Parameter) and id(tensor) not in ignored
        wanted = shard_placement_fn(tensor) if shard_placement_fn is not None and cuts else None
        chosen: Placement = wanted or (_first_free(tensor, devices) if cuts else Replicate())
        if _is_cut(tensor, devices):
            continue
        own += [tensor] if cuts else []
        whole = [Replicate()] * (devices.ndim - 1)
        distribute(tensor, devices, [*whole, chosen], name)
        if cuts and tensor.requires_grad:
            # A gradient arrives sharded or not, as XLA chooses.
            tensor.register_hook(functools.partial(_lying_as, tensor))
    _divide_activations(module, devices)
    if mp_policy != _AS_THEY_ARE:
        compute_in(module, mp_policy, own)
    if reshard_after_forward is not False:
        _gather_again(module)
    cls = type(module)
    if not isinstance(module, FSDPModule):
        module.__class__ = type(f"FSDP{cls.__name__}", (FSDPModule, cls), {})
    return module


def _is_cut(tensor: Any, mesh: DeviceMesh) -> bool:
    """Whether a dimension of ``mesh`` shards a tensor already."""
    found = lies(tensor)
    if found is None or found.mesh != mesh.jax():
        return False
    parts = [(each,) if isinstance(each, str) else each or () for each in found.spec]
    axes = {axis for part in mesh.axes for axis in part}
    return not axes.isdisjoint(axis for part in parts for axis in part)


def _first_free(tensor: Any, mesh: DeviceMesh) -> Placement:
    found = lies(tensor)
    spec = () if found is None else found.spec
    for dim, size in enumerate(tensor.shape):
        free = dim >= len(spec) or spec[dim] is None
        if free and size and size % mesh.shape[-1] == 0:
            return Shard(dim)
    return Replicate()


def _lying_as(parameter: Any, gradient: Any) -> Any:
    sharding = lies(parameter)
    return gradient if sharding is None or gradient.is_sparse else put(gradient, sharding)


def _divide_activations(module: Module, mesh: DeviceMesh) -> None:
    """Shard the inputs of the module, and the outputs of its layers, along the batch."""
    # For each running call, whether the arguments are the rows of this process.
    by_rows: list[bool] = []

    def enter(_: Any, args: Any, kwargs: Any) -> Any:
        found, are_rows = shared((args, kwargs), mesh)
        by_rows.append(are_rows)
        return found

    def leave(_: Any, args: Any, output: Any) -> Any:
        return own_rows(output, mesh) if by_rows and by_rows.pop() else None

    module.register_forward_pre_hook(enter, with_kwargs=True)
    for each in module.modules():
        if each is module or any(True for _ in each.parameters(recurse=False)):
            each.register_forward_hook(lambda _, args, output: divided(output, mesh, tell=False))
    module.register_forward_hook(leave, always_call=True)


def _gather_again(module: Module) -> None:
    """Make the backward of compiled steps gather parameters again, so that none stays gathered."""
    outer: list[Hooks | None] = []

    def enter(*_: Any) -> None:
        outer.append(modes.packing)
        if modes.trace is not None and modes.packing is None:
            modes.packing = _GATHERING_AGAIN

    def leave(*_: Any) -> None:
        if outer:
            modes.packing = outer.pop()

    module.register_forward_pre_hook(enter)
    module.register_forward_hook(leave, always_call=True)


def _behind_a_barrier(saved: Any) -> Any:
    """A tensor saved by forward; if it is a parameter, XLA gathers it again for backward."""
    if isinstance(saved, Parameter):
        return Tensor._wrap(jax.lax.optimization_barrier(saved._read()))
    return saved if isinstance(saved, Tensor) else Tensor._wrap(saved)


_GATHERING_AGAIN = Hooks(lambda tensor: tensor, _behind_a_barrier, region="fully_shard")
