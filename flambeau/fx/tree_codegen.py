"""Code of functions that flatten their arguments and unflatten their result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from flambeau.fx import _pytree as fx_pytree
from flambeau.fx.codegen import CodeGen
from flambeau.utils import _pytree as pytree


class _PyTreeInfo(NamedTuple):
    """The arguments' names and structure, and the result's, which tracing determines."""

    orig_args: list[str]
    in_spec: Any
    out_spec: Any


class _PyTreeCodeGen(CodeGen):
    """Generates functions with the original arguments and result."""

    def __init__(self, pytree_info: _PyTreeInfo) -> None:
        super().__init__()
        self.pytree_info = pytree_info

    def process_inputs(self, *inputs: Any) -> Any:
        """The leaves of the arguments."""
        return pytree.tree_leaves(inputs)

    def process_outputs(self, outputs: Any) -> Any:
        """The result, unflattened from its leaves."""
        if self.pytree_info.out_spec is None:
            return outputs
        return pytree.tree_unflatten(list(outputs), self.pytree_info.out_spec)

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str) -> str:
        """The signature of the function, and the line that flattens its arguments."""
        names = list(self.pytree_info.orig_args)
        if names[:1] == ["self"]:
            free_vars.insert(0, "self")
        head = super().gen_fn_def(names[:], maybe_return_annotation)
        if not free_vars:
            return head
        plain = [each.split(":")[0].split("=")[0].strip() for each in free_vars]
        annotated = [each for each in free_vars if ":" in each]
        if annotated:
            head += "\n    " + "".join(f"{each}; " for each in annotated) + "\n"
        given = f"[{', '.join(names)}], self._in_spec"
        return f"{head}\n    {', '.join(plain)}, = fx_pytree.tree_flatten_spec({given})"

    def generate_output(
        self, output_args: Any, *, repr_fn: Callable[[Any], str] | None = None
    ) -> str:
        """The statement that unflattens the result."""
        if self.pytree_info.out_spec is None:
            return super().generate_output(output_args, repr_fn=repr_fn)
        return f"return pytree.tree_unflatten({(repr_fn or repr)(output_args)}, self._out_spec)"

    def additional_globals(self) -> list[tuple[str, Any]]:
        """The flattening and unflattening functions."""
        return [
            ("fx_pytree", fx_pytree),
            ("pytree", pytree),
        ]
