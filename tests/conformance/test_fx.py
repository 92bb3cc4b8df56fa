"""Graphs that both libraries trace: their nodes, their code, and what they compute."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import torch

import flambeau
from flambeau import fx
from tests.conformance.fx_programs import PROGRAMS, ramp

# Where PyTorch's own functions are, and are public.
_HOMES = {
    r"torch\._C\._nn\.": "torch.nn.functional.",
    r"torch\._C\._linalg\.linalg_": "torch.linalg.",
    r"torch\._C\._fft\.fft_": "torch.fft.",
    r"torch\._C\._special\.special_": "torch.special.",
    r"torch\.functional\.": "torch.",
    r"\bflambeau\b": "torch",
    # Nearly all are the same; PyTorch has one of several functions for a few.
    r"torch\.nn\.functional\.(avg_pool1d|conv\dd|pixel_shuffle)\b": r"torch.\1",
}


def normal(text: str) -> str:
    """Code with the public names of functions, under the package's name torch."""
    for pattern, replacement in _HOMES.items():
        text = re.sub(pattern, replacement, text)
    return text.strip()


def traced(lib: Any, name: str) -> tuple[Any, Any, tuple[Any, ...]]:
    make, *inputs = PROGRAMS[name](lib)
    if isinstance(make, lib.nn.Module):
        with lib.no_grad():
            for each in make.parameters():
                each.copy_(ramp(lib, *each.shape))
    return make, lib.fx.symbolic_trace(make), tuple(inputs)


def described(graph: Any) -> list[tuple[Any, ...]]:
    return [
        (
            node.op,
            node.name,
            normal(node._pretty_print_target(node.target))
            if isinstance(graph, torch.fx.Graph)
            else normal(fx.names.shown_target(node.target)),
            [each.name for each in node.all_input_nodes],
            [each.name for each in node.users],
        )
        for node in graph.nodes
    ]


def values(result: Any) -> Any:
    """A result as NumPy arrays and plain Python."""
    if isinstance(result, torch.Tensor | flambeau.Tensor):
        return np.asarray(result.detach())
    if isinstance(result, dict):
        return {key: values(each) for key, each in result.items()}
    if isinstance(result, list | tuple):
        return [values(each) for each in result]
    is_plain = isinstance(result, int | float | str | slice | type(None))
    return result if is_plain else normal(str(result))


def assert_close(ours: Any, theirs: Any) -> None:
    assert type(ours) is type(theirs)
    if isinstance(ours, np.ndarray):
        assert ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
    elif isinstance(ours, dict | list):
        assert len(ours) == len(theirs)
        pairs = ours.items() if isinstance(ours, dict) else enumerate(ours)
        for key, each in pairs:
            assert_close(each, theirs[key])
    else:
        assert ours == theirs


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_gives_the_same_graph_the_same_code_and_the_same_numbers(name: str) -> None:
    _, their_module, their_inputs = traced(torch, name)
    ours, our_module, our_inputs = traced(flambeau, name)
    assert described(our_module.graph) == described(their_module.graph)
    assert normal(our_module.code) == normal(their_module.code)
    assert normal(str(our_module.graph)) == normal(str(their_module.graph))
    expected = values(their_module(*their_inputs))
    assert_close(values(our_module(*our_inputs)), expected)
    assert_close(values(ours(*our_inputs)), expected)


# Changes of graphs, as functions of the library.


def inserted(lib: Any) -> Any:
    gm = lib.fx.symbolic_trace(lambda x: (x + 1).relu())
    add = gm.graph.find_nodes(op="call_method")[0].all_input_nodes[0]
    with gm.graph.inserting_after(add):
        new = gm.graph.call_function(lib.neg, (add,))
    add.replace_all_uses_with(new, lambda user: user is not new)
    gm.recompile()
    return gm


def erased(lib: Any) -> Any:
    gm = lib.fx.symbolic_trace(lambda x: (x + 1, x.relu() * 2)[0])
    assert gm.graph.eliminate_dead_code()
    gm.recompile()
    return gm


def built_by_hand(lib: Any) -> Any:
    graph = lib.fx.Graph()
    x = graph.placeholder("x", default_value=None)
    weight = graph.get_attr("inner.weight")
    called = graph.call_module("inner", (x,))
    graph.output((graph.call_method("add", (called, weight)), [x]))
    graph.lint()
    inner = lib.nn.Linear(4, 4)
    with lib.no_grad():
        inner.weight.copy_(ramp(lib, 4, 4))
        inner.bias.zero_()
    return lib.fx.GraphModule({"inner": inner, "inner.weight": inner.weight}, graph, "Made")


def copied_graph(lib: Any) -> Any:
    source = lib.fx.symbolic_trace(lambda x: lib.relu(x + 1)).graph
    graph = lib.fx.Graph()
    result = graph.graph_copy(source, {})
    graph.output(graph.call_function(lib.add, (result, result), {"alpha": 2}))
    return lib.fx.GraphModule({}, graph)


def replaced(lib: Any) -> Any:
    gm = lib.fx.symbolic_trace(lambda x, y: lib.cat([x, y]).sum() + lib.cat([y, x]).max())
    matches = lib.fx.replace_pattern(
        gm, lambda a, b: lib.cat([a, b]), lambda a, b: lib.stack([a, b])
    )
    assert len(matches) == 2
    return gm


def replaced_in_a_chain(lib: Any) -> Any:
    gm = lib.fx.symbolic_trace(lambda x: ((x.relu() + 1).relu() + 1) * x)
    lib.fx.replace_pattern(gm, lambda x: x.relu() + 1, lambda x: lib.sigmoid(x))
    return gm


def replaced_where_nothing_leaks(lib: Any) -> Any:
    def f(x):
        a = x.relu()
        return a.neg() + a

    gm = lib.fx.symbolic_trace(f)
    assert lib.fx.replace_pattern(gm, lambda x: x.relu().neg(), lambda x: x) == []
    return gm


def transformed(lib: Any) -> Any:
    class Swap(lib.fx.Transformer):
        def call_function(self, target, args, kwargs):
            if target is lib.sigmoid:
                return lib.neg(*args, **kwargs)
            return super().call_function(target, args, kwargs)

        def call_method(self, target, args, kwargs):
            if target == "neg":
                return args[0].sigmoid()
            return super().call_method(target, args, kwargs)

    return Swap(lib.fx.symbolic_trace(lambda x: lib.sigmoid(x).neg() + 1)).transform()


def specialized(lib: Any) -> Any:
    def f(x, double, scale=3):
        return x * 2 if double else x * scale

    return lib.fx.symbolic_trace(f, concrete_args={"double": False, "scale": 2})


def specialized_to_none(lib: Any) -> Any:
    return lib.fx.symbolic_trace(
        lambda x, y=None: x if y is None else x + y, concrete_args={"y": None}
    )


def flattened_arguments(lib: Any) -> Any:
    def f(x):
        return {"sum": sum(x.values())}

    PH = lib.fx.PH
    return lib.fx.symbolic_trace(f, concrete_args={"x": {"a": PH, "b": PH}})


def traced_leaf(lib: Any) -> Any:
    class Leaf(lib.fx.Tracer):
        def is_leaf_module(self, m, module_qualified_name):
            return module_qualified_name == "0"

    nn = lib.nn
    model = nn.Sequential(nn.Sequential(nn.ReLU()), nn.Softmax(dim=-1), nn.Identity())
    tracer = Leaf()
    return lib.fx.GraphModule(model, tracer.trace(model))


def repeated_proxy(lib: Any) -> Any:
    gm = lib.fx.symbolic_trace(lambda x: x + 1)
    graph, env = lib.fx.Graph(), {}
    tracer = lib.fx.proxy.GraphAppendingTracer(graph)
    for node in gm.graph.nodes:
        if node.op == "call_function":
            args = [lib.fx.Proxy(env[e], tracer) if e in env else e for e in node.args]
            env[node] = (lib.relu(args[0]) * lib.nn.functional.dropout(args[0], 0.0)).node
        else:
            env[node] = graph.node_copy(node, lambda each: env[each])
    return lib.fx.GraphModule(gm, graph)


def generated_otherwise(lib: Any) -> Any:
    gm = lib.fx.symbolic_trace(lambda x: x + 1)
    with gm.graph.on_generate_code(lambda _: lambda body: ["x = x * 2\n", *body]):
        gm.recompile()
    return gm


CHANGED = {
    each.__name__: each
    for each in (
        inserted, erased, built_by_hand, copied_graph, replaced, replaced_in_a_chain,
        replaced_where_nothing_leaks, transformed, specialized, specialized_to_none,
        flattened_arguments, traced_leaf, repeated_proxy, generated_otherwise,
    )
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGED)
def test_a_change_gives_the_same_graph_and_code(name: str) -> None:
    theirs, ours = CHANGED[name](torch), CHANGED[name](flambeau)
    assert described(ours.graph) == described(theirs.graph)
    assert normal(ours.code) == normal(theirs.code)
    count = sum(node.op == "placeholder" for node in theirs.graph.nodes)
    pair = {"a": None, "b": None}
    given = {"flattened_arguments": 1, "specialized": 3}.get(name, count)
    constants = (False, 2) if name == "specialized" else (None,) if "none" in name else ()

    def inputs(lib: Any) -> list[Any]:
        if name == "flattened_arguments":
            return [{key: ramp(lib, 4, 4) for key in pair}]
        return [*(ramp(lib, 4, 4) for _ in range(given - len(constants))), *constants]

    expected = values(theirs(*inputs(torch)))
    assert_close(values(ours(*inputs(flambeau))), expected)
    if name != "generated_otherwise":
        assert_close(values(fx.Interpreter(ours).run(*inputs(flambeau))), expected)


PROGRAMS_THAT_FAIL = {
    "control flow": lambda lib: lambda x: x if x.sum() > 0 else -x,
    "iteration": lambda lib: lambda x: [each + 1 for each in x],
    "starred": lambda lib: lambda x: lib.cat(*x),
    "length": lambda lib: lambda x: x * len(x),
    "an argument": lambda lib: lambda x: x.foo(object()),
    "a key": lambda lib: lambda x: x.foo({x: 1}),
    "a function that is not wrapped": lambda lib: lambda x: float(x),
    "assignment": lambda lib: lambda x: x.__class__ and operator_setitem(x),
}


def operator_setitem(x: Any) -> Any:
    x[0] = 1
    return x


@pytest.mark.parametrize("name", PROGRAMS_THAT_FAIL)
def test_what_cannot_be_traced_is_the_same_error(name: str) -> None:
    make = PROGRAMS_THAT_FAIL[name]
    with pytest.raises(Exception) as theirs:  # noqa: PT011 - whatever PyTorch raises
        torch.fx.symbolic_trace(make(torch))
    with pytest.raises(Exception) as ours:  # noqa: PT011
        fx.symbolic_trace(make(flambeau))
    assert ours.type.__name__ == theirs.type.__name__
