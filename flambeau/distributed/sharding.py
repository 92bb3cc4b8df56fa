"""Sharding a whole model by rules on the names of its parameters."""

from __future__ import annotations

import difflib
import fnmatch
from collections.abc import Mapping, Sequence
from typing import Any

from jax.sharding import NamedSharding

from flambeau.distributed.device_mesh import DeviceMesh, as_mesh
from flambeau.distributed.tensor.modules import members
from flambeau.distributed.tensor.placements import (
    Placement,
    check_division,
    sharding_of,
    spec_of,
)
from flambeau.distributed.tensor.spreading import place
from flambeau.nn.module import Module

__all__ = ["shard"]


def shard(model: Module, mesh: Any, rules: Mapping[str, Any]) -> Module:
    """Put a model on the devices of a mesh, by rules on the names of parameters and buffers.

    The parameters stay the same objects, so an optimizer may be created before. On the meta device
    nothing is moved: ``materialize()`` and ``load_state_dict(..., assign=True)`` later create each
    tensor with its sharding, one by one.

    Args:
        model: The model.
        mesh: A `DeviceMesh`, a slice of one, or JAX's mesh.
        rules: Placements by patterns of names, in which ``*`` matches any characters and ``?`` one;
            the first match applies, and tensors without a match are replicated. A placement is a
            tuple with the name of a mesh dimension, several in a tuple, or ``None`` for each
            dimension of the tensor, such as ``(None, "model")``; or a list as for
            `distribute_tensor`, such as ``[Replicate(), Shard(1)]``.

    Returns:
        ``model``.

    Raises:
        ValueError: A rule matches nothing, or does not fit a tensor that it matches.
        TypeError: ``rules`` is not a dictionary.

    >>> from flambeau import shard
    >>> from flambeau import nn
    >>> from flambeau.distributed.device_mesh import init_device_mesh
    >>> mesh = init_device_mesh("cpu", (1, 1), mesh_dim_names=("data", "model"))
    >>> net = shard(nn.Sequential(nn.Linear(4, 8)), mesh, {"*.weight": ("model", None)})
    >>> net[0].weight.placements
    (Replicate(), Shard(dim=0))
    """
    if not isinstance(rules, Mapping):
        raise TypeError(
            'rules must be a dictionary such as {"*.weight": ("model", None)}, got '
            f"{type(rules).__name__}: {rules!r:.80}"
        )
    found = as_mesh(mesh)
    named = dict(members(model))
    for pattern in rules:
        if not fnmatch.filter(named, pattern):
            near = difflib.get_close_matches(pattern, named, n=3, cutoff=0.3) or [*named][:3]
            raise ValueError(
                f"the rule {pattern!r} matches no parameter or buffer; there are {', '.join(near)}"
                f" and others, {len(named)} in all"
            )
    # All placements are computed before the first move, so that an error leaves the model
    # unchanged.
    places = {name: _sharding(name, tensor, found, rules) for name, tensor in named.items()}
    for name, tensor in named.items():
        place(tensor, places[name])
    return model


def _sharding(name: str, tensor: Any, mesh: DeviceMesh, rules: Mapping[str, Any]) -> NamedSharding:
    for pattern, placement in rules.items():
        if fnmatch.fnmatchcase(name, pattern):
            if placement is not None and not isinstance(placement, Placement):
                placement = tuple(placement)
                if not any(isinstance(each, Placement) for each in placement):
                    return _by_dimension(name, tensor, mesh, placement)
            return sharding_of(mesh, placement, tensor.shape, name=name)
    return sharding_of(mesh, None, tensor.shape, name=name)


def _by_dimension(name: str, tensor: Any, mesh: DeviceMesh, parts: Sequence[Any]) -> NamedSharding:
    axes = [[] if e is None else [e] if isinstance(e, str) else [*e] for e in parts]
    if len(axes) > tensor.ndim:
        raise ValueError(f"{name} has {tensor.ndim} dimensions, but its rule {tuple(parts)} more")
    used = [each for part in axes for each in part]
    unknown = [each for each in used if each not in mesh.mesh_dim_names]
    if unknown or len({*used}) < len(used):
        raise ValueError(
            f"the rule {tuple(parts)} for {name} must name dimensions of the mesh, each once at "
            f"most: {mesh.mesh_dim_names}"
        )
    axes += [[]] * (tensor.ndim - len(axes))
    named = dict(zip(mesh.mesh_dim_names, mesh.axes, strict=True))
    axes = [[axis for each in part for axis in named[each]] for part in axes]
    check_division(mesh.jax(), axes, tensor.shape, name)
    return NamedSharding(mesh.jax(), spec_of(axes))
