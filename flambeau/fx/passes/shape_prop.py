"""Recording the shape and dtype of each value of a graph."""

from __future__ import annotations

from typing import Any, NamedTuple

from flambeau.core.devices.layout import contiguous_format, memory_format
from flambeau.core.support.dtype import dtype
from flambeau.core.values.tensor import Size, Tensor
from flambeau.fx.graph_module import GraphModule
from flambeau.fx.interpreter import Interpreter
from flambeau.fx.node import Node, map_aggregate

__all__ = ["ShapeProp", "TensorMetadata"]


class TensorMetadata(NamedTuple):
    """A tensor's properties without its values; there are no quantized tensors."""

    shape: Size
    dtype: dtype
    requires_grad: bool
    stride: tuple[int, ...]
    memory_format: memory_format | None
    is_quantized: bool
    qparams: dict[str, Any]


def _extract_tensor_metadata(result: Tensor, include_contiguity: bool = True) -> TensorMetadata:
    layout = contiguous_format if include_contiguity else None
    return TensorMetadata(
        result.shape, result.dtype, result.requires_grad, result.stride(), layout, False, {}
    )


class ShapeProp(Interpreter):
    """Runs a graph and records the shape of each node's value.

    ``node.meta["tensor_meta"]`` is then a `TensorMetadata`, or tuples, lists and dictionaries of
    them, of each node whose value has tensors; ``node.meta["type"]`` is the type of the value. With
    meta tensors as inputs, only shapes are computed.

    >>> import flambeau
    >>> from flambeau import fx
    >>> from flambeau.fx.passes.shape_prop import ShapeProp
    >>> traced = fx.symbolic_trace(lambda x: x.sum(0))
    >>> _ = ShapeProp(traced).propagate(flambeau.ones(2, 3))
    >>> [node.meta["tensor_meta"].shape for node in traced.graph.nodes]
    [flambeau.Size([2, 3]), flambeau.Size([3]), flambeau.Size([3])]
    """

    def __init__(self, gm: GraphModule, fake_mode: Any = None) -> None:
        super().__init__(gm)
        if fake_mode is not None:
            raise NotImplementedError(
                "there are no fake tensors here; give inputs and a module on the meta device"
            )

    def run_node(self, n: Node) -> Any:
        """Run one node and record its value's shape and dtype.

        Raises:
            RuntimeError: The node failed.
        """
        try:
            result = super().run_node(n)
        except Exception as error:
            raise RuntimeError(f"ShapeProp error for: node={n.format_node()}") from error
        found = False

        def described(value: Any) -> Any:
            nonlocal found
            if not isinstance(value, Tensor):
                return value
            found = True
            return _extract_tensor_metadata(value)

        described_result = map_aggregate(result, described)
        if found:
            n.meta["tensor_meta"] = described_result
        n.meta["type"] = type(result)
        return result

    def propagate(self, *args: Any) -> Any:
        """Run the graph on ``args`` and return the module's result."""
        return self.run(*args)
