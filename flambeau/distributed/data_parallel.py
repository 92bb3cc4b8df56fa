"""`DistributedDataParallel`: a module whose batches are divided, with equal parameters."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from flambeau.core.support.modes import modes
from flambeau.distributed.algorithms.join import Join, Joinable, JoinHook
from flambeau.distributed.alike import make_alike
from flambeau.distributed.arguments import member
from flambeau.distributed.batches import divided, mapped
from flambeau.distributed.device_mesh import DeviceMesh, as_mesh
from flambeau.distributed.process_group import get_world_size, group_or_world, is_initialized
from flambeau.distributed.reducer import Reducer
from flambeau.distributed.tensor.modules import replicate
from flambeau.nn.module import Module

__all__ = ["DistributedDataParallel"]


class DistributedDataParallel(Module, Joinable):
    """A module that several processes, or the devices of a mesh, train together.

    With several processes and no ``device_mesh``, each process computes with its own part of the
    batch, on its own device. At the end of each backward pass the gradients are averaged over the
    processes, so all of them take the same step. Divide the batches with a `DistributedSampler`.

    With a ``device_mesh``, or with one process, the module takes the batch of all devices together.
    Its parameters and buffers are replicated on the devices, and stay the same objects. The loss is
    that of the whole batch, and so are the gradients: they need no averaging. Batch normalization
    is over the whole batch. `distributed.global_batches` combines the parts that processes load.

    Args:
        module: The module.
        device_ids: At most one device, to which the inputs are moved.
        output_device: Accepted for compatibility, like all arguments that are not listed here.
        dim: The dimension of the batch, with a ``device_mesh``.
        broadcast_buffers: Whether each forward pass begins with the buffers of the first process.
        init_sync: Whether all processes get the parameters and buffers of the first one.
        process_group: The processes; by default all.
        bucket_cap_mb: The size of the pieces in which gradients are exchanged, in MiB; 25 by
            default.
        find_unused_parameters: Accepted for compatibility: parameters may be unused in any case.
            One that no process has used keeps its gradient.
        device_mesh: The devices that share a batch: a mesh, or a slice of one.
        **options: See ``output_device``.

    Attributes:
        module: The module; keys of the state dict begin with ``"module."``.
        require_backward_grad_sync: Whether gradients are averaged; see `no_sync`.

    Raises:
        RuntimeError: No parameter requires grad, several devices are given, or another process has
            a different module.

    >>> import flambeau
    >>> from flambeau.nn.parallel import DistributedDataParallel
    >>> from flambeau import nn
    >>> net = DistributedDataParallel(nn.Linear(2, 3))
    >>> net(flambeau.ones(8, 2)).shape
    flambeau.Size([8, 3])
    """

    def __init__(
        self,
        module: Module,
        device_ids: Any = None,
        output_device: Any = None,
        dim: int = 0,
        broadcast_buffers: bool | None = None,
        init_sync: bool = True,
        process_group: Any = None,
        bucket_cap_mb: float | None = None,
        find_unused_parameters: bool = False,
        *,
        device_mesh: Any = None,
        **options: Any,
    ) -> None:
        super().__init__()
        if not any(each.requires_grad for each in module.parameters()):
            raise RuntimeError(
                "DistributedDataParallel is not needed when a module doesn't have any parameters "
                "that require a gradient; call it as it is, or place it by flambeau.shard()"
            )
        if device_ids is not None and len(device_ids) > 1:
            raise RuntimeError(
                f"device_ids can only be None or contain a single element, but got {device_ids}; "
                "name the devices by device_mesh=init_device_mesh(...)"
            )
        self.device_ids = device_ids
        self.dim = dim
        self.broadcast_buffers = broadcast_buffers is not False
        self.find_unused_parameters = find_unused_parameters
        self.require_backward_grad_sync = True
        self.require_forward_param_sync = True
        self.expects_backward = False
        self._divides_by_all, self._megabytes = True, bucket_cap_mb
        self.device_mesh: DeviceMesh | None = None
        self.reducer: Reducer | None = None
        is_alone = not is_initialized() or get_world_size() == 1
        if device_mesh is not None or is_alone:
            self.device_mesh = mesh = as_mesh(device_mesh)
            if init_sync and not mesh.is_this_process_alone:
                make_alike(module)
            replicate(module, mesh)
        else:
            group = member(process_group)
            if group is None:
                raise ValueError(
                    "this process is not in process_group, so it averages no gradients; wrap the "
                    "module in the processes of the group only"
                )
            if init_sync:
                make_alike(module, group)
            self.reducer = Reducer(self, module, group, bucket_cap_mb)
        self.process_group = process_group
        self.module = module

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """The output of the module, for this process's part of a batch or for the whole one."""
        reducer = self.reducer
        if reducer is None:
            mesh, dim = self.device_mesh, self.dim
            assert mesh is not None
            return self.module(*divided(inputs, mesh, dim), **divided(kwargs, mesh, dim))
        is_synced = modes.grad_enabled and self.require_backward_grad_sync
        if modes.grad_enabled:
            self.expects_backward = is_synced
            reducer.waiting.clear()
        self._begin(reducer, is_synced)
        inputs, kwargs = mapped((inputs, kwargs), self._moved)
        return self.module(*inputs, **kwargs)

    def _begin(self, reducer: Reducer, is_synced: bool) -> None:
        """The exchanges at the beginning of a forward pass."""
        place, active = 0, Join.notify_join_context(self)
        reducer.divisor = reducer.group.size()
        if active is not None and not self._divides_by_all:
            reducer.divisor = float(active.result()[0].item())
        if self.join_context is not None:
            place = reducer.greatest(reducer.group.rank())
            reducer.greatest(is_synced)
        # A program that read the flag would be another one for each value.
        flag = "require_forward_param_sync"
        if modes.trace is not None:
            flag = "require_backward_grad_sync"
        if self.broadcast_buffers and getattr(self, flag):
            reducer.broadcast_buffers(self.module, place)
        self.require_forward_param_sync = is_synced

    def _take_part(self, reducer: Reducer) -> None:
        """The exchanges of a forward and a backward pass of the other processes."""
        place, is_synced = reducer.greatest(-1), bool(reducer.greatest(0))
        if self.require_forward_param_sync and self.broadcast_buffers:
            reducer.broadcast_buffers(self.module, place)
        self.require_forward_param_sync = is_synced
        if is_synced:
            reducer.average(is_finished=True)

    def _moved(self, tensor: Any) -> Any:
        ids = self.device_ids
        return tensor.to(ids[0]) if ids and next(self.parameters()).is_cuda else tensor

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """A block in which the gradients of forward passes stay those of this process.

        They accumulate in ``grad``. The first backward pass after a forward pass outside averages
        their sum. With a ``device_mesh`` it has no effect: XLA decides when devices communicate.
        """
        before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    @staticmethod
    def _set_params_and_buffers_to_ignore_for_model(module: Module, names: Iterable[str]) -> None:
        """Leave out parameters and buffers of a module that is wrapped later, by their names."""
        module._ddp_params_and_buffers_to_ignore = [*names]

    def register_comm_hook(self, state: Any, hook: Callable[..., Any]) -> None:
        """Average the gradients by a function.

        Args:
            state: The first argument of ``hook``.
            hook: Takes ``state`` and a `GradBucket`, and returns a future of its averages over the
                processes, as those of `distributed.algorithms.ddp_comm_hooks.default_hooks` do.

        Raises:
            TypeError: The hook is not callable.
            RuntimeError: There is a hook already, or gradients are not averaged.
        """
        if not callable(hook):
            raise TypeError(f"Communication hook must be callable, got {type(hook).__name__}")
        reducer = self._averaging("register_comm_hook")
        if reducer.hook is not None:
            raise RuntimeError("register_comm_hook can only be called once")
        reducer.hook = hook, state

    def join(
        self,
        divide_by_initial_world_size: bool = True,
        enable: bool = True,
        throw_on_early_termination: bool = False,
    ) -> Join:
        """A block in which processes may have unequal numbers of batches; see `Join`.

        Args:
            divide_by_initial_world_size: Whether sums of gradients are divided by the number of all
                processes; otherwise by that of the processes that have not finished.
            enable: Whether to do anything.
            throw_on_early_termination: Raise an error in all processes once one has finished.
        """
        return Join(
            [self],
            enable,
            throw_on_early_termination,
            divide_by_initial_world_size=divide_by_initial_world_size,
        )

    def join_hook(self, divide_by_initial_world_size: bool = True, **options: Any) -> JoinHook:
        """See `Joinable.join_hook`."""
        self._divides_by_all = divide_by_initial_world_size
        return _Finished(self, self._averaging("Join"))

    @property
    def join_device(self) -> Any:
        """See `Joinable.join_device`."""
        return next(self.parameters()).device

    @property
    def join_process_group(self) -> Any:
        """See `Joinable.join_process_group`."""
        return self._averaging("Join").group

    def _averaging(self, name: str) -> Reducer:
        if self.reducer is None:
            raise RuntimeError(
                f"{name}: the devices of this DistributedDataParallel compute one gradient "
                "together, so nothing is averaged; leave out device_mesh, and start several "
                "processes"
            )
        return self.reducer

    def __getstate__(self) -> dict[str, Any]:
        if self.reducer is not None and self.reducer.group is not group_or_world(None):
            raise RuntimeError(
                "DDP Pickling/Unpickling are only supported when using DDP with the default "
                "process group; copy its module, and wrap the copy"
            )
        return {**vars(self), "reducer": None, "process_group": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if self.device_mesh is None:
            group = group_or_world(self.process_group)
            self.reducer = Reducer(self, self.module, group, self._megabytes)


class _Finished(JoinHook):
    """See `Joinable.join_hook`."""

    def __init__(self, wrapper: DistributedDataParallel, reducer: Reducer) -> None:
        self.wrapper, self.reducer = wrapper, reducer

    def main_hook(self) -> None:
        self.wrapper._take_part(self.reducer)

    def post_hook(self, is_last_joiner: bool) -> None:
        reducer, module = self.reducer, self.wrapper.module
        place = reducer.greatest(reducer.group.rank() if is_last_joiner else -1)
        reducer.broadcast([*reducer.parameters.values()], place)
        reducer.broadcast_buffers(module, place)
