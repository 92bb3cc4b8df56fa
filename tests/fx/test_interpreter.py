"""Interpreters, transformers, shapes, and patterns that are replaced."""

import operator

import pytest

import flambeau
from flambeau import fx, nn
from flambeau.fx.passes.shape_prop import ShapeProp
from flambeau.fx.passes.utils.matcher_utils import SubgraphMatcher
from flambeau.fx.subgraph_rewriter import replace_pattern_with_filters
from tests.fx.models import Model


@pytest.fixture
def x():
    return flambeau.ones(2, 4)


def test_an_interpreter_computes_what_the_module_does(x):
    traced = fx.symbolic_trace(Model())
    assert flambeau.equal(fx.Interpreter(traced).run(x), traced(x))


def test_values_are_kept_if_they_are_asked_for(x):
    traced = fx.symbolic_trace(lambda x: (x + 1).sum())
    interpreter = fx.Interpreter(traced, garbage_collect_values=False)
    interpreter.run(x)
    assert [node.name for node in interpreter.env] == ["x", "add", "sum_1", "output"]
    fewer = fx.Interpreter(traced)
    fewer.run(x)
    assert [node.name for node in fewer.env] == ["output"]


def test_a_part_of_the_graph_can_be_run(x):
    traced = fx.symbolic_trace(lambda x: (x + 1) * 2)
    add = traced.graph.find_nodes(op="call_function", target=operator.add)[0]
    assert flambeau.equal(fx.Interpreter(traced).run(x, initial_env={add: x}), x * 2)


def test_boxed_run_empties_its_list(x):
    traced = fx.symbolic_trace(lambda x: x + 1)
    given = [x]
    assert flambeau.equal(fx.Interpreter(traced).boxed_run(given), x + 1)
    assert given == []
    with pytest.raises(RuntimeError, match="1 placeholders, but got 0"):
        fx.Interpreter(traced).boxed_run(given)


def test_errors_name_the_node(x):
    traced = fx.symbolic_trace(lambda x: x.view(3))
    with pytest.raises(RuntimeError) as error:
        fx.Interpreter(traced).run(x)
    assert "call_method[target=view]" in error.value.__notes__[0]
    with pytest.raises(RuntimeError, match="positional argument for parameter x"):
        fx.Interpreter(traced).run()


def test_structures_are_processed(x):
    traced = fx.symbolic_trace(lambda d: [d["a"]], concrete_args={"d": {"a": fx.PH}})
    assert fx.Interpreter(traced).run({"a": x})[0] is x


def test_a_transformer_respects_modules(x):
    traced = fx.symbolic_trace(Model())
    again = fx.Transformer(traced).transform()
    assert again.code == traced.code
    assert flambeau.equal(again(x), traced(x))


def test_an_interpreter_can_be_compiled(x):
    traced = fx.symbolic_trace(lambda x: [x + 1, {"a": x * 2}])
    result = flambeau.compile(lambda x: fx.Interpreter(traced).run(x))(x)
    assert flambeau.equal(result[1]["a"], x * 2)


def test_shapes_are_noted():
    traced = fx.symbolic_trace(nn.Sequential(nn.Linear(4, 3), nn.ReLU()))
    ShapeProp(traced).propagate(flambeau.ones(2, 4))
    linear = traced.graph.find_nodes(op="call_module")[0]
    meta = linear.meta["tensor_meta"]
    assert (meta.shape, meta.dtype, meta.requires_grad) == ((2, 3), flambeau.float32, True)
    assert linear.meta["type"] is flambeau.Tensor


def test_shapes_can_be_noted_without_computing():
    traced = fx.symbolic_trace(lambda x: x @ x.T)
    ShapeProp(traced).propagate(flambeau.ones(2, 3, device="meta"))
    assert traced.graph.output_node().meta["tensor_meta"].shape == (2, 2)


def test_a_failing_node_is_named():
    traced = fx.symbolic_trace(lambda x: x.view(3))
    with pytest.raises(RuntimeError, match="ShapeProp error for: node=%view"):
        ShapeProp(traced).propagate(flambeau.ones(2))


def test_a_replacement_brings_its_modules(x):
    class Activation(nn.Module):
        def __init__(self):
            super().__init__()
            self.act = nn.Tanh()

        def forward(self, x):
            return self.act(x)

    traced = fx.symbolic_trace(lambda x: x.relu() + 1)
    matches = fx.replace_pattern(traced, lambda x: x.relu(), fx.symbolic_trace(Activation()))
    assert [match.anchor.name for match in matches] == ["relu"]
    assert isinstance(traced.act, nn.Tanh)
    flambeau.testing.assert_close(traced(x), x.tanh() + 1)


def test_filters_and_callbacks_decide():
    traced = fx.symbolic_trace(lambda x: x.add(1) * x.add(2))
    graph = fx.symbolic_trace(lambda x: x.neg()).graph

    def is_first(match, whole, pattern):
        return match.returning_nodes[0].name == "add"

    replaced = replace_pattern_with_filters(
        traced, lambda x: x.add(7), None, [is_first], ignore_literals=True,
        replacement_callback=lambda match, whole, pattern: graph,
    )  # fmt: skip
    assert [node.name for node in replaced[0].replacements] == ["neg"]
    assert [node.name for node in traced.graph.nodes] == ["x", "add_1", "neg", "mul", "output"]


def test_a_pattern_with_dead_code_is_refused():
    graph = fx.symbolic_trace(lambda x: (x + 1, x * 2)[0]).graph
    with pytest.raises(AssertionError, match="'mul'"):
        SubgraphMatcher(graph)
