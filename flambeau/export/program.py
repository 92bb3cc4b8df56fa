"""Exported programs: what they take and return, and calls of them."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.export import Exported
from jax.extend.core import ClosedJaxpr

from flambeau.core.fusion.seam import fusible
from flambeau.core.kernels.kernel import Kernel
from flambeau.core.support.tracebacks import trimmed
from flambeau.core.values.tensor import Tensor
from flambeau.export import structure
from flambeau.export.facts import Entry, Facts
from flambeau.nn.module import Module
from flambeau.nn.parameter import Parameter
from flambeau.ops.factories.from_data import tensor

__all__ = ["ExportGraphSignature", "ExportedProgram"]


class ExportGraphSignature(NamedTuple):
    """The names of a program's inputs and outputs.

    Attributes:
        parameters: The parameters, which are inputs.
        buffers: The buffers, which are inputs.
        user_inputs: The tensors in the arguments.
        user_outputs: The tensors in the result.
    """

    parameters: tuple[str, ...]
    buffers: tuple[str, ...]
    user_inputs: tuple[str, ...]
    user_outputs: tuple[str, ...]


class ExportedProgram:
    """A model's forward as a program of XLA, with its parameters and buffers.

    It is called as the model was in the example: with tensors or NumPy arrays in the same
    structure. Results are new tensors that require no grad. Several threads may call it.

    Attributes:
        exported: The `jax.export.Exported`, a function of the state's arrays and then the inputs'.
        jaxpr: The same function as a jaxpr of JAX's primitives, for converters to other formats;
            ``None`` if the program was loaded.

    >>> import flambeau
    >>> from flambeau import nn
    >>> batch = flambeau.export.Dim("batch", max=64)
    >>> example = (flambeau.ones(2, 3),)
    >>> program = flambeau.export.export(nn.Linear(3, 4), example, dynamic_shapes=({0: batch},))
    >>> program
    ExportedProgram of Linear
      inputs:    input: float32[batch, 3]
      outputs:   result: float32[batch, 4]
      sizes:     batch: from 1 to 64
      state:     2 parameters, 0 buffers, 64 bytes
      platforms: cpu
    >>> program(flambeau.ones(5, 3)).shape
    flambeau.Size([5, 4])
    """

    def __init__(
        self,
        exported: Exported,
        facts: Facts,
        state: Mapping[str, Tensor],
        jaxpr: ClosedJaxpr | None = None,
    ) -> None:
        self.exported = exported
        self.jaxpr = jaxpr
        self._facts = facts
        self._state = dict(state)
        self._kernel = _kernel(exported, facts.name)

    @property
    def state_dict(self) -> dict[str, Tensor]:
        """The parameters and buffers by name; in-place changes show in later calls."""
        return dict(self._state)

    @property
    def graph_signature(self) -> ExportGraphSignature:
        """The names of inputs and outputs."""
        facts = self._facts
        inputs, outputs = (tuple(e.name for e in each) for each in (facts.inputs, facts.outputs))
        return ExportGraphSignature(facts.parameters, facts.buffers, inputs, outputs)

    @property
    def inputs(self) -> tuple[Entry, ...]:
        """The name, dtype and shape of each tensor in the arguments."""
        return self._facts.inputs

    @property
    def outputs(self) -> tuple[Entry, ...]:
        """The name, dtype and shape of each tensor in the result."""
        return self._facts.outputs

    @property
    def platforms(self) -> tuple[str, ...]:
        """The platforms that it runs on."""
        return self._facts.platforms

    def stablehlo(self) -> str:
        """The program's text, in MLIR's StableHLO dialect."""
        return self.exported.mlir_module()

    def module(self) -> Module:
        """A module of the program, whose parameters and buffers are the program's."""
        return _ProgramModule(self)

    @trimmed
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The model's result.

        Raises:
            TypeError: An argument has another structure, constant or dtype than in the example.
            ValueError: A size does not fit.
            RuntimeError: The program was not exported for the device of its state or inputs.
        """
        return self._run([self._state[name] for name in self._facts.state], args, kwargs)

    def _run(self, state: Sequence[Tensor], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        facts = self._facts
        found = [_as_tensor(each) for each in self._inputs(args, kwargs)]
        sizes: dict[str, int] = {}
        for entry, each in zip(facts.inputs, found, strict=True):
            self._check(entry, each, sizes)
        self._check_platform([*state, *found])
        results = Kernel.run(self._kernel, (*state, *found))
        return structure.put_together(facts.result, results)

    def _inputs(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[Any]:
        """The tensors in the arguments, which may be given by name instead of by position."""
        facts = self._facts
        by_name = dict(kwargs)
        left = (name for name in facts.positional[len(args) :] if name in by_name)
        given = [*args, *(by_name.pop(name) for name in left)]
        first, second = facts.arguments["tuple"]
        parts, keywords = first["tuple"], dict(second["dict"])
        if len(given) != len(parts) or {*by_name} != {*keywords}:
            names = ", ".join([*facts.positional, *(f"{name}=" for name in keywords)])
            got = ", ".join(
                [*(f"argument {i}" for i in range(len(args))), *(f"{k}=" for k in kwargs)]
            )
            raise TypeError(f"the program takes ({names}), as in the example, got ({got})")
        for part, value, name in zip(parts, given, facts.positional, strict=True):
            yield from structure.tensors_of(part, value, name)
        for name, part in keywords.items():
            yield from structure.tensors_of(part, by_name[name], name)

    def _check(self, entry: Entry, given: Tensor, sizes: dict[str, int]) -> None:
        """Check an input's dtype and shape; add its open sizes to ``sizes``."""
        dtype = np.dtype(given.dtype.numpy).name
        got = f"got {dtype}{list(given.shape)}"
        if dtype != entry.dtype:
            raise TypeError(f"input {entry}: expected {entry.dtype}, {got}")
        if len(given.shape) != len(entry.shape):
            raise ValueError(f"input {entry}: expected {len(entry.shape)} dimensions, {got}")
        for i, (size, expected) in enumerate(zip(given.shape, entry.shape, strict=True)):
            if isinstance(expected, int):
                if size != expected:
                    raise ValueError(f"input {entry}: expected {expected} in dimension {i}, {got}")
            elif size not in self._facts.bounds[expected]:
                bounds = self._facts.bounds[expected]
                raise ValueError(f"input {entry}: '{expected}' must be {bounds}, {got}")
            elif sizes.setdefault(expected, size) != size:
                raise ValueError(
                    f"input {entry}: '{expected}' is {sizes[expected]} in an earlier dimension, "
                    f"but {size} in dimension {i}, {got}"
                )

    def _check_platform(self, tensors: list[Tensor]) -> None:
        found = {each.device.type for each in tensors} or {jax.default_backend()}
        if others := found - {*self.platforms} - {"gpu"}:
            raise RuntimeError(
                f"the program was exported for {', '.join(self.platforms)}, and tensors are on "
                f"{', '.join(sorted(others))}; say platforms= in export(), or move the tensors"
            )

    def __repr__(self) -> str:
        facts = self._facts
        sizes = sum(self._state[each].nbytes for each in facts.state)
        state = f"{len(facts.parameters)} parameters, {len(facts.buffers)} buffers, {sizes:,} bytes"
        lines = [
            f"ExportedProgram of {facts.name}",
            f"  inputs:    {', '.join(map(str, facts.inputs))}",
            f"  outputs:   {', '.join(map(str, facts.outputs))}",
            f"  sizes:     {', '.join(f'{n}: {each}' for n, each in facts.bounds.items())}",
            f"  state:     {state}",
            f"  platforms: {', '.join(facts.platforms)}",
        ]
        return "\n".join(each for each in lines if each != "  sizes:     ")


class _ProgramModule(Module):
    """The module of an `ExportedProgram`."""

    def __init__(self, program: ExportedProgram) -> None:
        super().__init__()
        self._program = program
        facts, tensors = program._facts, {}
        for name in facts.state:
            kept = program._state[name]
            is_parameter = name in facts.parameters
            tensors[name] = Parameter(kept, requires_grad=False) if is_parameter else kept
        for name, first in [*zip(facts.state, facts.state, strict=True), *facts.tied.items()]:
            path, _, last = name.rpartition(".")
            owner = functools.reduce(_child, path.split(".") if path else [], self)
            if isinstance(tensors[first], Parameter):
                owner.register_parameter(last, tensors[first])
            else:
                owner.register_buffer(last, tensors[first])
        super().train(False)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The result of the program."""
        state = dict(self.named_parameters()) | dict(self.named_buffers())
        return self._program._run([state[n] for n in self._program._facts.state], args, kwargs)

    def train(self, mode: bool = True) -> Any:
        """A program has the mode of the exported model."""
        if mode:
            raise NotImplementedError("Calling train() is not supported: a program has one mode")
        return self

    def extra_repr(self) -> str:
        """The program."""
        return repr(self._program)


def _child(owner: Module, name: str) -> Module:
    if name not in owner._modules:
        owner.add_module(name, Module())
    found = owner._modules[name]
    assert found is not None
    return found


class _Call:
    """The function of an exported program's arrays, known to the cache by its code's digest."""

    def __init__(self, exported: Exported) -> None:
        self._exported = exported
        code = hashlib.sha256(exported.mlir_module_serialized)
        code.update(repr((exported.in_avals, exported.platforms)).encode())
        self._digest = code.hexdigest()

    def __call__(self, *arrays: Any) -> tuple[Any, ...]:
        return tuple(self._exported.call(*arrays))

    def described_by(self) -> tuple[Any, ...]:
        """The identity of the computation."""
        return (self._digest,)


def _kernel(exported: Exported, name: str) -> Kernel:
    call = _Call(exported)
    kernel = Kernel(call, f"program of {name}", "ExportedProgramBackward0", differentiable=False)
    kernel.forward = fusible(call, f"program of {name}", at_once=True)
    return kernel


def _as_tensor(value: Any) -> Tensor:
    if isinstance(value, Tensor):
        return value
    return Tensor._wrap(value) if isinstance(value, jax.Array) else tensor(value)
