"""The program of a step: the rule for all parameters in one compiled call."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple, cast

import jax
from jax.core import Tracer

from flambeau.core.devices import donation
from flambeau.core.devices.donation import owned
from flambeau.core.fusion.closing import OtherStepError
from flambeau.core.fusion.sequence import Fusible
from flambeau.core.fusion.stream import here
from flambeau.core.kernels.kernel import Kernel
from flambeau.core.operators import companions, dispatch
from flambeau.core.operators.writing import put
from flambeau.core.programs import finishing
from flambeau.core.programs.absent import is_without_elements
from flambeau.core.programs.compiled import compiled, unwatched
from flambeau.core.programs.gears import settings as gears
from flambeau.core.support.modes import enable_grad
from flambeau.core.values.attributes import handle_on
from flambeau.core.values.cell import Cell, is_abstract
from flambeau.core.values.tensor import Tensor
from flambeau.optim.fused import Member, in_one_pass
from flambeau.optim.groups import Layout, ParameterGroup, pick
from flambeau.optim.precision import packed, unpacked


class RowGradient(NamedTuple):
    """A gradient with some rows only, as arrays.

    Attributes:
        rows: The indices of the rows, possibly with repetitions.
        values: The gradient of each; repeated rows are summed.
    """

    rows: Any
    values: Any


class GroupSpec(NamedTuple):
    """The assumptions of a program about one group.

    Attributes:
        rule: The rule of its optimizer.
        flags: The options that are part of the program.
        layout: The places of its numbers.
        members: For each parameter the names of its state, and whether this is its first step.
    """

    rule: Callable[..., Any]
    flags: tuple[tuple[str, Any], ...]
    layout: Layout
    members: tuple[tuple[tuple[str, ...], bool], ...]


def update(
    specs: tuple[GroupSpec, ...],
    params: list[Any],
    grads: list[Any],
    states: list[Any],
    vectors: list[Any],
    tensors: list[Any],
) -> tuple[list[Any], list[Any]]:
    """One step for all parameters, on arrays.

    Args:
        specs: The structure of the groups.
        params: The parameters of all groups.
        grads: Their gradients.
        states: Their state, in the order of the names in ``specs``.
        vectors: The numbers of each group.
        tensors: The numbers of all groups that are tensors.

    Returns:
        The new parameters and the new state.
    """
    new_params: list[Any] = []
    new_states: list[Any] = []
    left = iter(states)
    # Parameters of one shape share one trace of their rule, which XLA inlines at each call.
    update_one = jax.jit(_update_one, static_argnums=(0, 1))
    for spec, vector in zip(specs, vectors, strict=True):
        hyper = pick(spec.layout, vector, tensors)
        places = jax.tree.leaves(dict(spec.layout))
        tensors = tensors[sum(each < 0 for each in places) :]
        members = []
        for names, first in spec.members:
            i = len(new_params) + len(members)
            state = {name: next(left) for name in names}
            facts = (*spec.flags, ("first", first), ("dtype", params[i].dtype))
            members.append(Member(facts, params[i], grads[i], state))
        stepped = in_one_pass(spec.rule, _update_one, members, hyper)
        for i, member in enumerate(members):
            with jax.disable_jit(False):
                param, state = stepped.get(i) or update_one(spec.rule, *member, hyper)
            new_params.append(param)
            new_states += [state[name] for name in member.state]
    return new_params, new_states


def _update_one(
    rule: Callable[..., Any],
    facts: tuple[tuple[str, Any], ...],
    param: Any,
    grad: Any,
    state: Any,
    hyper: Any,
) -> Any:
    flags = dict(facts)
    values = grad.values if isinstance(grad, RowGradient) else grad
    values = unpacked(-values if flags.get("maximize") else values)
    if isinstance(grad, RowGradient):
        rule, values = cast(Any, rule).__self__.sparse_rule, RowGradient(grad.rows, values)
    arrays = {name: unpacked(each) for name, each in state.items()}
    new, arrays = rule(unpacked(param), values, arrays, hyper, flags)
    return packed(new, param), {name: packed(each, state[name]) for name, each in arrays.items()}


def _gradient_of(grad: Tensor) -> Any:
    """The array of a gradient, or the rows of a sparse one."""
    if not grad.is_sparse:
        return grad._read()
    if grad.sparse_dim() != 1:
        return grad.to_dense()._read()
    return RowGradient(grad._indices()._read()[0], grad._values()._read())


@functools.lru_cache(maxsize=256)
def _fusible(specs: tuple[GroupSpec, ...]) -> Fusible:
    function, donate = functools.partial(update, specs), (0, 2)
    fast = compiled(function, "optimizer_step", donate=donate, like=_as_before)
    return Fusible(function, fast, donate)


def _as_before(params: list[Any], grads: list[Any], states: list[Any], *numbers: Any) -> Any:
    """New parameters and state with the sharding of the old ones."""
    return params, states


def _cells_of(tensors: list[Tensor]) -> list[Cell]:
    """The Cells of ``tensors``; for a view, a Cell that holds only its elements."""
    return [each._cell if each._view is None else Cell(each._read()) for each in tensors]


def has_elements(tensor: Tensor) -> bool:
    """Whether there is anything to compute: ``tensor`` is not on meta, or was not."""
    array = tensor._values()._cell.array if tensor.is_sparse else tensor._cell.array
    return not (is_abstract(array) or is_without_elements(array))


def place_of(tensor: Tensor) -> Any:
    """The devices of ``tensor``; ``None`` on meta, where there is nothing to compute."""
    tensor = tensor._values() if tensor.is_sparse else tensor
    array = tensor._cell.array
    if isinstance(array, Tracer):
        return "traced"
    if is_abstract(array):
        return None
    return frozenset(array.sharding.device_set) if array.committed else "anywhere"


class StepProgram:
    """A program and the tensors that it updates.

    Args:
        specs: The structure of the groups.
        params: The parameters that have gradients, group by group.
        states: Their state.
        groups: The groups.
    """

    specs: tuple[GroupSpec, ...]
    params: list[Tensor]
    states: list[Tensor]

    def __init__(
        self,
        specs: tuple[GroupSpec, ...],
        params: list[Tensor],
        states: list[Tensor],
        groups: list[ParameterGroup],
    ) -> None:
        self.specs, self.params, self.states = specs, params, states
        self.cells: list[Cell] = [group.cell for group in groups]
        self.tensors: list[Tensor] = [each for group in groups for each in group.tensors]
        self.fusible: Fusible = _fusible(specs)
        self.compiled: Any = self.fusible.fast
        self.kernel: Kernel | None = None
        #: Called after a step was written, for the work besides tensors.
        self.ends: Callable[[], None] | None = None

    def run(self, grads: list[Tensor]) -> None:
        """One step."""
        # Before the call is matched, since reading a view is a call too.
        given = self._given(grads)
        closing = here.stream.closing(self.fusible)
        try:
            self._run(given, closing)
        except OtherStepError:
            here.stream.leave(closing)
            closing = None
            self._run(self._given(grads), closing)
        here.stream.close(self.fusible, closing)

    def _given(self, grads: list[Tensor]) -> tuple[list[Any], ...]:
        """The Cells that a step writes, and the other arrays that it reads.

        The arrays are gradients, which may be parameters too, and numbers.
        """
        cells = _cells_of(self.params) + _cells_of(self.states)
        try:
            arrays = [g._cell.array if g._view is None else g._read() for g in grads]
        except NotImplementedError:
            # A sparse tensor has no Cell.
            arrays = [*map(_gradient_of, grads)]
        vectors = [cell.array for cell in self.cells]
        return cells, arrays, vectors, [*map(self._number, self.tensors)]

    def _run(self, given: tuple[list[Any], ...], closing: Any) -> None:
        count = len(self.params)
        cells, grads, vectors, numbers = given

        def arrange(taken: list[Any]) -> tuple[Any, ...]:
            own = owned(taken, () if closing is None else closing.held)
            arguments = own[:count], grads, own[count:], vectors, numbers
            return arguments if closing is None else closing.arguments(arguments)

        def write(results: Any) -> None:
            self._write_step(results if closing is None else closing.write(results))

        program = self.compiled if closing is None else closing.program
        finishing.run(program, cells, arrange, write)

    def _number(self, tensor: Tensor) -> Any:
        """The array of a number, on the device of the parameters."""
        array = tensor._read()
        target = companions.place_of(self.params[0]._cell.array) if self.params else None
        if target in (None, companions.place_of(array)) or array.ndim:
            return array
        return donation.put(array, target.jax_device)

    def _write_step(self, results: tuple[list[Any], list[Any]]) -> None:
        params, states = results
        self._write(self.params, params)
        self._write(self.states, states)
        gears.stepped()
        if self.ends is not None:
            self.ends()

    def check_places(self, grads: list[Tensor]) -> None:
        """Fail unless parameters, gradients and state are on the same devices."""
        states = iter(self.states)
        members = [names for spec in self.specs for names, _ in spec.members]
        for param, grad, names in zip(self.params, grads, members, strict=True):
            for name, other in [("grad", grad), *((name, next(states)) for name in names)]:
                if place_of(other) != place_of(param):
                    raise RuntimeError(
                        f"a parameter of shape {list(param.shape)} is on {param.device}, but its "
                        f"{name} on {other.device}; move a model before making its optimizer, or "
                        "load the optimizer's state_dict() again after moving it"
                    )

    def _write(self, tensors: list[Tensor], arrays: list[Any]) -> None:
        if arrays and isinstance(arrays[0], Tracer):
            for tensor, array in zip(tensors, arrays, strict=True):
                tensor._store(array)
            return
        for tensor, array in zip(tensors, arrays, strict=True):
            if tensor._view is None:
                cell = tensor._cell
                cell.array = array
                cell.version += 1
            else:
                tensor._store(array)

    def run_recorded(self, grads: list[Tensor]) -> None:
        """One step that is recorded on the tape, so that gradients flow through it."""
        if self.kernel is None:
            self.kernel = Kernel(self._flat_update, "step", "OptimizerStepBackward0")
        changed = [*self.params, *self.states]
        grads = [each.to_dense() for each in grads]
        cells = [handle_on(each, Tensor) for each in self.cells]
        inputs = (*changed, *grads, *cells, *self.tensors)
        with enable_grad():
            results = dispatch.run(self.kernel, inputs)
            for tensor, result in zip(changed, results, strict=True):
                put(tensor, result, "step")

    def _flat_update(self, *arrays: Any) -> tuple[Any, ...]:
        given = iter(arrays)
        params, states, grads, vectors, tensors = (
            [next(given) for _ in kind]
            for kind in (self.params, self.states, self.params, self.cells, self.tensors)
        )
        params, states = update(self.specs, params, grads, states, vectors, tensors)
        return (*params, *states)

    def run_traced(self, grads: list[Tensor], trace: Any) -> None:
        """One step as part of a program that is being traced."""
        for each in self.tensors:
            trace.note(each)
        arrays = (
            [each._read() for each in self.params],
            [*map(_gradient_of, grads)],
            [each._read() for each in self.states],
            [trace.read(cell) for cell in self.cells],
            [each._read() for each in self.tensors],
        )
        with unwatched(self.compiled):
            params, states = update(self.specs, *arrays)
        for tensor, array in zip(self.params + self.states, params + states, strict=True):
            tensor._store(array)
