"""Optimizers defined by a rule for one parameter: one compiled call updates all parameters.

A rule is a pure function on arrays. `RuleOptimizer` applies it to every parameter of every group in
one program, which is cached for its structure: the parameters with gradients, and the options.
Values that change from step to step are inputs of the program.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from flambeau.compile.guarding.freezing import freeze
from flambeau.core.support import dtype as dtypes
from flambeau.core.support.identity import Same
from flambeau.core.support.modes import enable_grad, modes
from flambeau.core.values.cell import abstract, is_abstract
from flambeau.core.values.tensor import Tensor
from flambeau.core.values.trace import outside
from flambeau.nn.parameter import is_lazy
from flambeau.optim.loading import put_beside
from flambeau.optim.optimizer import Optimizer
from flambeau.optim.step_program import GroupSpec, StepProgram, has_elements, place_of

# State, numbers or flags by name.
Named: TypeAlias = dict[str, Any]


class Entry(NamedTuple):
    """One tensor of a parameter's initial state.

    Attributes:
        shape: Its shape.
        dtype: Its NumPy dtype.
        fill: The value of all its elements.
    """

    shape: tuple[int, ...]
    dtype: Any
    fill: complex = 0.0


def like(param: Tensor, fill: complex = 0.0) -> Entry:
    """An entry of the shape and dtype of ``param``."""
    return Entry(tuple(param.shape), param.dtype.numpy, fill)


def scalar(fill: float = 0.0) -> Entry:
    """A 0-d entry in the precision in which PyTorch counts steps."""
    wide = dtypes.get_default_dtype() is dtypes.float64
    return Entry((), np.dtype(np.float64 if wide else np.float32), fill)


class RuleOptimizer(Optimizer):
    """An optimizer defined by a rule for one parameter.

    A subclass declares ``numbers`` (options that are numbers, which a rule receives as scalars),
    ``switches`` (numbers that are passed as ``None`` if they are zero, so that the rule can omit
    the terms that they multiply), ``flags`` (options that become part of the program), `entries`
    and `rule`.
    """

    flags: ClassVar[tuple[str, ...]] = ()
    has_programs = True

    @classmethod
    def rule(
        cls, param: Any, grad: Any, state: Named, hyper: Named, flags: Named
    ) -> tuple[Any, Named]:
        """One step for one parameter, on arrays.

        Args:
            param: The parameter, as returned by `unpacked`.
            grad: Its gradient, already negated for ``maximize``.
            state: Its state by name.
            hyper: The numbers of its group, as returned by `number`.
            flags: The options that are part of the program; and ``"first"``, whether this is the
                parameter's first step, and ``"dtype"``, its dtype.

        Returns:
            The new parameter and its new state, of the same shapes; dtypes are converted later.
        """
        raise NotImplementedError

    @classmethod
    def sparse_rule(
        cls, param: Any, grad: Any, state: Named, hyper: Named, flags: Named
    ) -> tuple[Any, Named]:
        """`rule` for a gradient that is a `RowGradient`.

        Raises:
            RuntimeError: The optimizer supports only dense gradients.
        """
        raise RuntimeError(
            f"{cls.__name__} does not support sparse gradients, please consider SparseAdam or SGD "
            "instead; or make them dense, with sparse=False in the embedding"
        )

    def entries(self, param: Tensor, group: dict[str, Any]) -> dict[str, Entry]:
        """The initial state of ``param`` under the options of ``group``."""
        return {}

    def first_step_differs(self, group: dict[str, Any]) -> bool:
        """Whether the rule reads ``flags["first"]``, which costs a second program."""
        return False

    def _prepare(self) -> None:
        super()._prepare()
        self._programs: dict[tuple[bool, ...], list[tuple[StepProgram, list[int]]]] = {}
        self._programs_version = -1
        self._all_params: list[Tensor] = []
        self._starting: set[int] = set()

    def _expected_shapes(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        options = {**self.defaults, **group}
        return {name: entry.shape for name, entry in self.entries(param, options).items()}

    def _first_state(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        has_shape = not (is_lazy(param) or param.is_sparse)
        if not has_shape or not param.requires_grad or self.first_step_differs(group):
            return {}
        entries = self.entries(param, group)
        if entries != self.entries(param, {**group, "lr": float(group["lr"]) + 1}):
            # A scheduler may change the rate, on which the initial state depends, until the first
            # step.
            return {}
        return {name: _start(each, param) for name, each in entries.items()}

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update all parameters that have a gradient.

        Args:
            closure: Recomputes the loss, with gradients, and returns it.

        Returns:
            The loss, if there is a closure.
        """
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        trace, trace_around = modes.trace, self._structure.trace
        if self._structure.version != self._programs_version:
            self._forget_programs()
        if trace is None:
            grads: list[Any] = [param._grad for param in self._all_params]
        else:
            grads = [param.grad for param in self._all_params]
        given = tuple([grad is not None for grad in grads])
        programs = self._programs.get(given)
        if programs is None:
            # The state of an optimizer that the trace has made ends with the call.
            with nullcontext() if trace_around is None else outside():
                programs = self._make_programs(given)
            self._programs_version = self._structure.version
            if all(map(has_elements, self._all_params)):
                self._programs[given] = programs
        if trace_around is not None:
            trace_around.watch(self, self._snapshot)
        for program, positions in programs:
            is_last = program is programs[-1][0]
            program.ends = self._has_begun if self._starting and is_last else None
            chosen = [grads[i] for i in positions]
            if self.defaults.get("differentiable"):
                program.run_recorded(chosen)
            elif trace is not None:
                program.run_traced(chosen, trace)
            else:
                try:
                    program.run(chosen)
                except ValueError:
                    self._run_where_they_are(positions, grads)
        if self._starting:
            self._has_begun()
        return loss

    def _has_begun(self) -> None:
        """Mark every parameter's first step as done."""
        if self._starting:
            self._starting.clear()
            self._structure.change()

    def _run_where_they_are(self, positions: list[int], grads: list[Any]) -> None:
        """Update parameters that are no longer together on the devices of their program."""
        self._programs_version = -1
        chosen = set(positions)
        given = tuple(i in chosen for i in range(len(grads)))
        for program, own in self._make_programs(given):
            program.check_places([grads[i] for i in own])
            program.run([grads[i] for i in own])

    def _forget_programs(self) -> None:
        version = self._structure.version
        self._programs.clear()
        self._all_params = [
            param for group in self.param_groups for param in dict.__getitem__(group, "params")
        ]
        # Last, since an interrupt may arrive before.
        self._programs_version = version

    def _make_programs(self, given: tuple[bool, ...]) -> list[tuple[StepProgram, list[int]]]:
        """The programs of a step, one for each set of devices, with their parameters."""
        by_place: dict[Any, list[tuple[int, int, Tensor]]] = {}
        met: Counter[int] = Counter()
        position = 0
        for number, group in enumerate(self.param_groups):
            options = dict(group)
            for param in options["params"]:
                if given[position]:
                    self._make_state(param, options)
                    place = place_of(param)
                    if place is not None:
                        # A parameter that occurs twice is updated twice, in sequence.
                        key = place, met[id(param)]
                        by_place.setdefault(key, []).append((position, number, param))
                        met[id(param)] += 1
                position += 1
        return [self._make_program(members) for members in by_place.values()]

    def _make_program(
        self, members: list[tuple[int, int, Tensor]]
    ) -> tuple[StepProgram, list[int]]:
        specs, params, states, groups = [], [], [], []
        for number, group in enumerate(self.param_groups):
            own = [param for _, its_group, param in members if its_group == number]
            if not own:
                continue
            options = dict(group)
            described = []
            for param in own:
                names = tuple(self.entries(param, options))
                described.append((names, id(param) in self._starting))
                states += [self.state[param][name] for name in names]
            flags = tuple(
                (name, options[name]) for name in (*self.flags, "maximize") if name in options
            )
            specs.append(GroupSpec(type(self).rule, flags, group.layout, tuple(described)))
            params += own
            groups.append(group)
        return StepProgram(tuple(specs), params, states, groups), [
            position for position, _, _ in members
        ]

    def _make_state(self, param: Tensor, options: dict[str, Any]) -> None:
        """Create the missing entries of a parameter's state."""
        entries = self.entries(param, options)
        if not entries:
            return
        state = self.state[param]
        for name, entry in entries.items():
            value = state.get(name)
            if value is None or (_is_meta(value) and has_elements(param)):
                state[name] = _start(entry, param)
                if self.first_step_differs(options):
                    self._starting.add(id(param))
            elif not isinstance(value, Tensor):
                # Old checkpoints count steps in Python numbers.
                state[name] = _start(entry._replace(fill=value), param)

    def _snapshot(self) -> Any:
        """The assumptions of a compiled step, in a comparable form."""
        groups = []
        for group in self.param_groups:
            options = dict(group)
            flags = [options.get(name) for name in (*self.flags, "maximize")]
            # A group that was replaced by another dictionary has another Cell.
            groups.append(
                (
                    Same(group.cell),
                    group.layout,
                    flags,
                    freeze(group.tensors),
                    freeze(options["params"]),
                )
            )
        return groups, freeze(dict(self.state)), set(self._starting), self._watched_hooks()


def _is_meta(value: Any) -> bool:
    return isinstance(value, Tensor) and is_abstract(value._cell.array)


def _start(entry: Entry, param: Tensor) -> Tensor:
    array = param._cell.array
    if not has_elements(param):
        value = abstract(entry.shape, entry.dtype)
        sharding = array.sharding
        if isinstance(sharding, NamedSharding):
            if entry.shape != tuple(param.shape):
                sharding = NamedSharding(sharding.mesh, PartitionSpec())
            value = value.update(sharding=sharding)
        return Tensor._wrap(value)
    return Tensor._wrap(put_beside(np.full(entry.shape, entry.fill, entry.dtype), array))
