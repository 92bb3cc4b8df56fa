"""Tracing a module or a function into a `GraphModule`."""

from __future__ import annotations

from typing import Any

from flambeau.fx.assertions import _assert_is_none
from flambeau.fx.graph_module import GraphModule
from flambeau.fx.patching import wrap
from flambeau.fx.placeholders import PH, PHBase, PHWithMeta
from flambeau.fx.tracer import (
    ProxyableClassMeta,
    Tracer,
    is_fx_symbolic_tracing,
    is_fx_tracing,
)
from flambeau.nn.module import Module

__all__ = [
    "PH", "PHBase", "PHWithMeta", "ProxyableClassMeta", "Tracer", "_assert_is_none",
    "is_fx_symbolic_tracing", "is_fx_tracing", "symbolic_trace", "wrap",
]  # fmt: skip


def symbolic_trace(root: Any, concrete_args: Any = None) -> GraphModule:
    """Trace ``root`` into a module whose graph can be inspected and changed.

    ``root`` is run once, on proxies that record operations; control flow on the values of its
    inputs, such as ``if x.sum() > 0``, is an error.

    Args:
        root: A module or a function.
        concrete_args: Values of arguments, by name, that `root` is specialized to: the traced
            function keeps these parameters and checks their values. Lists and dictionaries may
            contain `PH` for values that remain variable.

    Raises:
        TypeError: ``root`` is neither a module nor a Python function.
        TraceError: The control flow depends on the values of the inputs.

    >>> import flambeau
    >>> from flambeau import fx, nn
    >>> class Model(nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.linear = nn.Linear(2, 3)
    ...
    ...     def forward(self, x):
    ...         return self.linear(x).relu() + self.linear.bias
    >>> print(fx.symbolic_trace(Model()).code.strip())
    def forward(self, x):
        linear = self.linear(x);  x = None
        relu = linear.relu();  linear = None
        linear_bias = self.linear.bias
        add = relu + linear_bias;  relu = linear_bias = None
        return add
    """
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    name = type(root).__name__ if isinstance(root, Module) else root.__name__
    return GraphModule(tracer.root, graph, name)
