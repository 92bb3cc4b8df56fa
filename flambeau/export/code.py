"""A program's code as text, which MLIR parses and checks.

MLIR's reader of binary code trusts its input: damaged bytes crash it. So files have the text, and
`load` creates a `jax.export.Exported` of zeros with the same inputs and outputs, and replaces its
code.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import export as jax_export
from jax.export import Exported
from jax.extend.mlir import ir
from jax.extend.mlir.dialects import stablehlo
from jax.interpreters import mlir

from flambeau.checkpoint.errors import CheckpointError, DamagedFileError, RefusedContentError
from flambeau.core.support.jax_private import stable_calls
from flambeau.export.dims import scope_of
from flambeau.export.facts import Entry, Facts

__all__: list[str] = []

_CALL = re.compile(r"custom_call(?: @([\w.$]+)\()?")
# Kernels whose code is in the program.
_WITH_CODE = {"tpu_custom_call", "mosaic_gpu_v2", "tf.call_tf_function"}


def program_from(
    text: str, facts: Facts, state: Sequence[Entry], convention: int, writer: str
) -> Exported:
    """The program of a text.

    Args:
        text: StableHLO, from `Exported.mlir_module`.
        facts: The header of the file.
        state: The parameters and buffers.
        convention: The version of JAX's calling convention in the text.
        writer: The version of JAX that wrote the text.

    Raises:
        CheckpointError: The text is damaged, of another version, or does not fit the header.
    """
    least = jax_export.minimum_supported_calling_convention_version
    most = jax_export.maximum_supported_calling_convention_version
    if not least <= convention <= most:
        raise RefusedContentError(
            f"JAX {jax.__version__} calls programs by the conventions {least} to {most}, and JAX "
            f"{writer:.20} has written one of convention {convention}; export the model again"
        )
    try:
        around = _template(facts, state)
    except Exception as error:  # noqa: BLE001 - of JAX's parser of sizes, for one.
        raise DamagedFileError(f"its header has wrong sizes: {_first_line(error)}") from None
    try:
        code = stablehlo.serialize_portable_artifact_str(text, stablehlo.get_current_version())
        program = dataclasses.replace(
            around,
            fun_name=facts.name,
            mlir_module_serialized=code,
            calling_convention_version=convention,
        )
        shown, kind = program.mlir_module(), _type_of(program)
    except Exception as error:  # noqa: BLE001 - MLIR has no type of error for this.
        raise CheckpointError(
            f"JAX {jax.__version__} cannot read the program, which JAX {writer:.20} has written; "
            f"export the model again: {_first_line(error)}"
        ) from None
    if kind != _type_of(around):
        raise DamagedFileError("its header has other inputs or outputs than its program")
    called = {found[1] for found in _CALL.finditer(shown)}
    if foreign := called - (stable_calls() - _WITH_CODE):
        names = ", ".join(sorted(map(str, foreign)))
        raise RefusedContentError(f"the program calls {names}, functions outside of XLA")
    return program


def _template(facts: Facts, state: Sequence[Entry]) -> Exported:
    """A program of zeros with the inputs and outputs of the header."""
    scope = scope_of(facts.bounds)

    def struct(entry: Entry) -> jax.ShapeDtypeStruct:
        shape = jax_export.symbolic_shape(", ".join(map(str, entry.shape)), scope=scope)
        return jax.ShapeDtypeStruct(shape, jnp.dtype(entry.dtype))

    results = [*map(struct, facts.outputs)]

    def zeros(*_: Any) -> tuple[Any, ...]:
        return tuple(jnp.zeros(each.shape, each.dtype) for each in results)

    inputs = [struct(each) for each in (*state, *facts.inputs)]
    return jax_export.export(jax.jit(zeros, keep_unused=True), platforms=facts.platforms)(*inputs)


def _type_of(program: Exported) -> str:
    """The type of the program's function."""
    with mlir.make_ir_context():
        module = program.mlir_module(serialized=False)
        return str(ir.SymbolTable(module.operation)["main"].attributes["function_type"])


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0][:200]
