"""Modules as functions of their parameters and buffers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from typing import Any

import jax
from jax.core import Tracer

from flambeau.core.support.modes import inference_mode, modes
from flambeau.core.support.tracebacks import trimmed
from flambeau.core.tape.transform import Capture
from flambeau.core.values.inside import transformation
from flambeau.core.values.tensor import Tensor
from flambeau.func.attributes import kept_attributes
from flambeau.func.tree import as_tensor, flatten, map_tensors
from flambeau.nn.module import Module
from flambeau.nn.utils import stateless
from flambeau.ops.shapes.shape import stack

__all__ = ["functional_call", "stack_module_state"]

_Values = dict[str, Any]
# For each name the table that holds it, and its key in the table.
_Places = dict[str, tuple[dict[str, Any], str]]


@trimmed
def functional_call(
    module: Module,
    parameter_and_buffer_dicts: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call a module with other tensors in place of its parameters and buffers.

    The module itself is unchanged afterwards, also if the call raises. If the module writes to a
    given Tensor in place, as to a running mean, the caller's Tensor changes; if it assigns a new
    value (``self.steps = self.steps + 1``), the value is stored in the caller's dictionary.

    Given `jax.Array`s, in the dictionaries or as arguments, it returns `jax.Array`s, so that
    functions under `jax.jit`, `jax.grad` and `jax.vmap` can use it. A `jax.Array` is immutable, so
    buffers that the module writes to must be Tensors there, passed as arguments of the transformed
    function: Tensors are nodes of JAX's trees, so a function under `jax.jit` can take and return
    them. Random numbers are drawn there only under `flambeau.random.key_scope`.

    Args:
        module: The module to call.
        parameter_and_buffer_dicts: New values by name, as `Module.named_parameters` and
            `Module.named_buffers` name them, in one dictionary or several. Tensors that are not
            named keep their own values.
        args: The positional arguments: a tuple, or a single one.
        kwargs: The keyword arguments.
        tie_weights: A new value of a shared tensor applies to its other names too.
        strict: Names must be exactly those of the module.

    Returns:
        The module's result.

    Raises:
        ValueError: A name is in several dictionaries, tied names get different values, or there are
            no dictionaries.
        RuntimeError: Names are missing or unknown and ``strict`` is set; the module changes a value
            given as a `jax.Array`, or, inside a transformation, changes a tensor or attribute of
            its own.
        AttributeError: A name leads through a submodule that does not exist.
        TypeError: A value is neither a Tensor nor a `jax.Array`, or a name belongs to another kind
            of member.

    >>> import flambeau, jax
    >>> from flambeau import nn
    >>> from flambeau.func import functional_call
    >>> model = nn.Linear(2, 1, bias=False)
    >>> weights = {"weight": jax.numpy.ones((1, 2), "float32")}
    >>> inputs = jax.numpy.array([1.0, 2.0], "float32")
    >>> functional_call(model, weights, inputs)
    Array([3.], dtype=float32)
    >>> loss = jax.jit(lambda weights: functional_call(model, weights, inputs).sum())
    >>> jax.grad(loss)(weights)
    {'weight': Array([[1., 2.]], dtype=float32)}
    """
    given = _merged(parameter_and_buffer_dicts)
    arguments = () if args is None else args if isinstance(args, tuple) else (args,)
    leaves = [*given.values(), *flatten((arguments, kwargs))[0]]
    with _inside_jax() if _is_transformed(leaves) else contextlib.nullcontext():
        values = _as_values(given)
        spread = _with_tied(module, values) if tie_weights else values
        if strict:
            _check_names(module, values, tie_weights)
        arguments = tuple(map(_with_tensors, arguments))
        keywords = {name: _with_tensors(each) for name, each in (kwargs or {}).items()}
        fixed = {name for name, each in given.items() if isinstance(each, jax.Array)}
        with kept_attributes(module), _swapped(module, spread, fixed) as places:
            try:
                result = module(*arguments, **keywords)
            finally:
                _hand_back(places, values, parameter_and_buffer_dicts)
        if any(isinstance(each, jax.Array) for each in leaves):
            return map_tensors(Tensor.jax, result)
        return result


def _merged(dicts: Any) -> _Values:
    """All new values in one dictionary."""
    if isinstance(dicts, Mapping):
        return dict(dicts)
    if not isinstance(dicts, list | tuple) or not all(isinstance(d, Mapping) for d in dicts):
        raise ValueError(
            "functional_call() takes a dictionary of parameters and buffers or a sequence of them, "
            f"got {type(dicts).__name__}"
        )
    merged: _Values = {}
    repeated: list[str] = []
    for each in dicts:
        repeated += [name for name in each if name in merged]
        merged.update(each)
    if repeated:
        raise ValueError(f"functional_call(): {repeated} are in several dictionaries")
    return merged


def _as_values(given: _Values) -> _Values:
    """The new values as Tensors, one for each array."""
    tensors: dict[int, Any] = {}
    for name, value in given.items():
        tensor = tensors.setdefault(id(value), as_tensor(value))
        if not isinstance(tensor, Tensor):
            raise TypeError(
                f"functional_call(): '{name}' must be a Tensor or a jax.Array, "
                f"got {type(value).__name__}"
            )
    return {name: tensors[id(value)] for name, value in given.items()}


def _with_tensors(value: Any) -> Any:
    return jax.tree.map(as_tensor, value, is_leaf=lambda each: isinstance(each, Tensor))


def _own_tensors(module: Module) -> Iterator[tuple[str, Tensor]]:
    yield from module.named_parameters(remove_duplicate=False)
    yield from module.named_buffers(remove_duplicate=False)


def _tied_groups(module: Module, tie_weights: bool = True) -> dict[str, tuple[str, ...]]:
    """For each name of a tensor, all its names; only the name itself without ``tie_weights``."""
    if not tie_weights:
        return {name: (name,) for name, _ in _own_tensors(module)}
    names: dict[int, list[str]] = {}
    for name, tensor in _own_tensors(module):
        names.setdefault(id(tensor), []).append(name)
    return {name: tuple(group) for group in names.values() for name in group}


def _check_names(module: Module, values: _Values, tie_weights: bool) -> None:
    groups = _tied_groups(module, tie_weights)
    unexpected = sorted(name for name in values if name not in groups)
    missing = sorted(
        name for name, group in groups.items() if not any(each in values for each in group)
    )
    if unexpected or missing:
        facts = [f"unexpected names {unexpected}"] if unexpected else []
        facts += [f"missing names {missing}"] if missing else []
        raise RuntimeError(
            f"functional_call() with strict=True on a {type(module).__name__}: "
            f"{' and '.join(facts)}"
        )


def _with_tied(module: Module, values: _Values) -> _Values:
    """The values under all names of the tensors that they replace."""
    spread: _Values = {}
    groups = _tied_groups(module)
    for name, value in values.items():
        group = groups.get(name, (name,))
        others = [each for each in group if values.get(each, value) is not value]
        if others:
            raise ValueError(
                f"functional_call(): {[name, *others]} are names of one tensor but get different "
                "values; give one of them, or say tie_weights=False"
            )
        spread.update(dict.fromkeys(group, value))
    return spread


@contextlib.contextmanager
def _swapped(module: Module, values: _Values, fixed: set[str]) -> Iterator[_Places]:
    """Replace tensors of a module inside the block; yields the places.

    Args:
        module: The module.
        values: The values by name.
        fixed: Names of values that must not change.
    """
    places = {name: _place(module, name) for name in values}
    if modes.trace is not None:
        # The program's guard must check the module's own tensors, not these.
        for each in module.modules():
            modes.trace.enter(each)
            modes.trace.touch(each._parameters)
            modes.trace.touch(each._buffers)
    before: list[tuple[dict[str, Any], str, Any]] = []
    # Not by the module's own assignment, which would invalidate all compiled programs.
    try:
        for (table, name), value in zip(places.values(), values.values(), strict=True):
            before.append((table, name, table.get(name, _ABSENT)))
            dict.__setitem__(table, name, value)
        yield places
        _check_unchanged(places, values, fixed)
    finally:
        for table, name, old in reversed(before):
            if old is _ABSENT:
                dict.pop(table, name, None)
            else:
                dict.__setitem__(table, name, old)


def _hand_back(places: _Places, values: _Values, dicts: Any) -> None:
    """Store the Tensors that a module has assigned in the caller's dictionaries."""
    for given in (dicts,) if isinstance(dicts, Mapping) else dicts:
        if not isinstance(given, MutableMapping):
            continue
        for name in given:
            table, last = places[name]
            assigned = table.get(last, values[name])
            if assigned is not values[name] and isinstance(given[name], Tensor):
                given[name] = assigned


def _check_unchanged(places: _Places, values: _Values, fixed: set[str]) -> None:
    """Fail if changes of the module to its values would be lost."""
    lost = [
        name
        for (name, (table, last)), value in zip(places.items(), values.values(), strict=True)
        if name in fixed and (value._cell.version or table.get(last) is not value)
    ]
    if lost:
        raise RuntimeError(
            f"functional_call(): the module changed {lost}, given as jax.Arrays, which cannot "
            "change: the new values would be lost. Give Tensors (flambeau.from_jax) for what it "
            "writes in place, and read them afterwards; or call eval() on the module if it should "
            "not write"
        )


_ABSENT = object()


def _place(module: Module, name: str) -> tuple[dict[str, Any], str]:
    """The table that holds a named tensor, and its key in the table."""
    path, _, last = name.rpartition(".")
    owner = module.get_submodule(path)
    for table in (owner._parameters, owner._buffers):
        if last in table:
            return table, last
    current = getattr(owner, last, None)
    if current is not None and not isinstance(current, Tensor):
        raise TypeError(
            f"functional_call(): '{name}' is not a tensor of the module but a "
            f"{type(current).__name__}"
        )
    return owner.__dict__, last


def _is_transformed(leaves: list[Any]) -> bool:
    """Whether the call is inside a function that JAX itself transforms."""
    if transformation() is not None or modes.trace is not None:
        return False
    arrays = (each._cell.array if isinstance(each, Tensor) else each for each in leaves)
    return any(isinstance(each, Tracer) for each in arrays)


@contextlib.contextmanager
def _inside_jax() -> Iterator[None]:
    """The inside of a function that JAX transforms.

    JAX computes the gradients there, so the tape records nothing, and no_grad must stop JAX's
    gradients.
    """
    capture = Capture()
    capture.differentiated = modes.grad_enabled
    with capture, inference_mode(False):
        capture.is_of_jax = True
        yield


def stack_module_state(
    models: Sequence[Module],
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The parameters and buffers of models with one structure, stacked, for `vmap` over the models.

    Args:
        models: Modules of the same class and structure, all training or none.

    Returns:
        Parameters and buffers by name, each with a leading dimension over the models. The
        parameters are leaves.

    Raises:
        RuntimeError: There are no models, their classes, modes or shapes differ, or a parameter
            requires grad in some of them only.

    >>> import flambeau
    >>> from flambeau import nn
    >>> from flambeau.func import functional_call, stack_module_state, vmap
    >>> models = [nn.Linear(2, 3) for _ in range(4)]
    >>> params, buffers = stack_module_state(models)
    >>> def call(params, buffers, x):
    ...     return functional_call(models[0], (params, buffers), x)
    >>> vmap(call, in_dims=(0, 0, None))(params, buffers, flambeau.ones(5, 2)).shape
    flambeau.Size([4, 5, 3])
    """
    models = list(models)
    if not models:
        raise RuntimeError("stack_module_state() needs at least one model")
    kinds = {type(each).__name__ for each in models}
    if any(type(each) is not type(models[0]) for each in models):
        raise RuntimeError(
            f"stack_module_state() needs models of one class, got {', '.join(sorted(kinds))}"
        )
    if any(each.training != models[0].training for each in models):
        raise RuntimeError(
            "stack_module_state() needs all models in training mode or all in evaluation mode"
        )
    parameters = [dict(each.named_parameters()) for each in models]
    buffers = [dict(each.named_buffers()) for each in models]
    return (
        {name: _stacked(name, parameters) for name in parameters[0]},
        {name: _stacked(name, buffers) for name in buffers[0]},
    )


def _stacked(name: str, states: Sequence[Mapping[str, Tensor]]) -> Tensor:
    tensors = [each[name] for each in states]
    if any(each.requires_grad != tensors[0].requires_grad for each in tensors):
        raise RuntimeError(
            f"stack_module_state(): '{name}' requires grad in some of the models but not in all"
        )
    return stack(tensors).detach().requires_grad_(tensors[0].requires_grad)


# For the older name of the function.
stateless._call = functional_call
