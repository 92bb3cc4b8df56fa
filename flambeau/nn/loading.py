"""Loading the tensors of one module, and the ties and names of a whole tree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from flambeau.core.devices import meshes
from flambeau.core.devices.layout import strided
from flambeau.core.support.modes import no_grad
from flambeau.core.support.warning import warn
from flambeau.core.values.tensor import Tensor
from flambeau.nn import load_report
from flambeau.nn.common_types import Kwargs
from flambeau.nn.parameter import Parameter, is_lazy
from flambeau.nn.registry import Member, ModuleState
from flambeau.nn.traversal import Traversal
from flambeau.sparse.tensor import SparseTensor

__all__ = ["OwnNames", "load_members", "tied"]

# PyTorch's name for the module in a compiled one.
_COMPILED = "_orig_mod"


def load_members(
    module: ModuleState,
    members: dict[str, Tensor],
    state_dict: Mapping[str, object],
    prefix: str,
    assign: bool,
) -> tuple[list[str], list[str]]:
    """Load the tensors of ``module``; return missing keys, and the problems of the others."""
    missing, problems = [], []
    with no_grad():
        for name, member in members.items():
            key = prefix + name
            if key in state_dict:
                problem = _load_member(module, name, member, key, state_dict[key], assign)
                if problem is not None:
                    problems.append(problem)
            else:
                missing.append(key)
    return missing, problems


def _load_member(
    module: ModuleState, name: str, member: Tensor, key: str, given: Any, assign: bool
) -> str | None:
    """Load one tensor; return its problem, if there is one."""
    if not isinstance(given, Tensor) and not hasattr(type(given), "__torch_function__"):
        return load_report.not_a_tensor(key, given)
    if is_lazy(member) or is_lazy(given):
        return _load_uninitialized(module, name, member, key, given, assign)
    shape = member.shape
    if given.shape != shape:
        if shape or tuple(given.shape) != (1,):
            return load_report.size_mismatch(key, given, member)
        # Scalars were once saved as vectors of one element.
        given = given.reshape(())
    is_sparse = isinstance(member, SparseTensor)
    if given.layout is not member.layout and not assign:
        return load_report.layout_mismatch(key, given, member)
    if given.is_complex() and not member.is_complex() and not assign:
        return load_report.kind_mismatch(key, given, member)
    if member.is_meta and not given.is_meta and not assign:
        warn(
            f"{key} is on the meta device and has no elements to load into: use assign=True to "
            "take the given tensors over, or to_empty() first",
        )
    try:
        if assign:
            setattr(module, name, _in_place_of(member, given))
        elif is_sparse:
            # The indices of a sparse tensor never change, so a new tensor replaces it.
            copied = given.detach().to(member.device, member.dtype, copy=True)
            setattr(module, name, copied.requires_grad_(member.requires_grad))
        else:
            member.copy_(given)
    except Exception as error:  # noqa: BLE001 - whatever it is, it joins the report
        return load_report.failed_write(key, given, member, error)
    return None


def _load_uninitialized(
    module: ModuleState, name: str, member: Tensor, key: str, given: Any, assign: bool
) -> str | None:
    """Load one tensor if the value or the member has no shape yet; return its problem, if any."""
    if not is_lazy(given) or not is_lazy(member):
        return load_report.uninitialized(key, given)
    # Neither has elements: there is nothing to copy.
    if assign:
        setattr(module, name, given)
    return None


def _in_place_of(member: Tensor, given: Tensor) -> Tensor:
    """``given`` as the new ``member`` of a module."""
    if meshes.in_use and member.layout is given.layout is strided:
        given = _on_its_mesh(member, given)
    if not isinstance(member, Parameter):
        return given
    if isinstance(given, Parameter):
        return given.requires_grad_(member.requires_grad)
    return Parameter(given, requires_grad=member.requires_grad)


def _on_its_mesh(member: Tensor, given: Tensor) -> Tensor:
    """``given`` with the sharding of ``member``, or its planned sharding on the meta device."""
    array = given._read()
    placed = meshes.lying_as(array, member._cell.array)
    if placed is array:
        return given
    moved = Tensor._wrap(placed)
    if isinstance(given, Parameter):
        return Parameter(moved, requires_grad=given.requires_grad)
    return moved.requires_grad_(given.requires_grad)


@contextmanager
def tied(root: Traversal) -> Iterator[None]:
    """Keep names that share one tensor shared after the block, which replaces tensors.

    The last replacement is used for all names, as the last copy would be.
    """
    places: dict[int, list[tuple[ModuleState, str, Tensor]]] = {}
    for module in root.modules():
        for name, each in (*module._parameters.items(), *module._buffers.items()):
            if each is not None:
                places.setdefault(id(each), []).append((module, name, each))
    yield
    for several in places.values():
        found = [
            module._parameters.get(name, module._buffers.get(name)) for module, name, _ in several
        ]
        new = [
            each
            for each, (_, _, old) in zip(found, several, strict=True)
            if each is not None and each is not old
        ]
        for (module, name, _), each in zip(several, found, strict=True):
            if new and each is not None and each is not new[-1]:
                setattr(module, name, new[-1])


class OwnNames:
    """The names of entries without ``_orig_mod``, PyTorch's prefix for compiled modules.

    Args:
        module: The root of the tree.
        state_dict: The state to load.
    """

    def __init__(self, module: Traversal, state_dict: Mapping[str, object]) -> None:
        self.compiled: set[str] = set()
        if any(_COMPILED in key for key in state_dict if isinstance(key, str)):
            self.compiled = {
                path
                for path, each in module.named_modules(remove_duplicate=False)
                # An attribute of the class, not a submodule of this name.
                if hasattr(type(each), _COMPILED)
            }

    def of_state(self, state: Mapping[str, Member]) -> Mapping[str, Member]:
        """The state by own names; an entry keeps its name if its own name is already used."""
        if not self.compiled:
            return state
        owns = {key: self._own(key) for key in state}
        return {
            key if own != key and own in state else own: state[key] for key, own in owns.items()
        }

    def of_metadata(self, metadata: dict[str, Kwargs] | None) -> dict[str, Kwargs] | None:
        """The versions of modules by own names, without the versions of their wrappers."""
        if not self.compiled or metadata is None:
            return metadata
        return metadata | {self._own(key): each for key, each in metadata.items()}

    def _own(self, key: str) -> str:
        path: list[str] = []
        for part in key.split("."):
            if part != _COMPILED or ".".join(path) not in self.compiled:
                path.append(part)
        return ".".join(path)
