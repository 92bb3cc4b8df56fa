"""Graphs and their nodes: making, moving, replacing and erasing."""

import pytest

import flambeau
from flambeau import fx, nn


def graph_of(function):
    return fx.symbolic_trace(function).graph


def names(graph):
    return [node.name for node in graph.nodes]


def test_a_node_knows_its_users_and_its_inputs():
    graph = graph_of(lambda x, y: (x + y) * x)
    x, y, add, mul, output = graph.nodes
    assert list(x.users) == [add, mul]
    assert mul.all_input_nodes == [add, x]
    mul.args = (y, y)
    assert list(x.users) == [add]
    assert mul.all_input_nodes == [y]
    assert list(y.users) == [add, mul]
    assert output.prev is mul
    assert mul.next is output


def test_the_arguments_of_a_node_cannot_be_changed_in_place():
    graph = graph_of(lambda x: flambeau.cat([x, x], dim=0))
    cat = graph.find_nodes(op="call_function", target=flambeau.cat)[0]
    with pytest.raises(TypeError, match="does not support mutation"):
        cat.args[0].append(None)
    with pytest.raises(TypeError, match="does not support mutation"):
        cat.kwargs["dim"] = 1
    cat.update_kwarg("dim", 1)
    cat.update_arg(0, [*cat.args[0], cat.args[0][0]])
    assert len(cat.args[0]) == 3
    assert cat.kwargs == {"dim": 1}


def test_insert_arg_counts_the_new_input():
    graph = graph_of(lambda x, y: x.add(1))
    x, y, add, _ = graph.nodes
    add.insert_arg(1, y)
    assert add.args == (x, y, 1)
    assert list(y.users) == [add]


def test_nodes_can_be_moved():
    graph = graph_of(lambda x: (x + 1, x * 2))
    _, add, mul, _ = graph.nodes
    add.prepend(mul)
    assert names(graph) == ["x", "mul", "add", "output"]
    add.append(mul)
    assert names(graph) == ["x", "add", "mul", "output"]
    graph.lint()


def test_a_graph_may_change_while_it_is_iterated_over():
    graph = graph_of(lambda x: x.relu().neg().abs())
    for node in graph.nodes:
        if node.target == "neg":
            node.replace_all_uses_with(node.args[0])
            graph.erase_node(node)
    assert names(graph) == ["x", "relu", "abs_1", "output"]
    assert len(graph.nodes) == 4


def test_a_node_that_is_used_cannot_be_erased():
    graph = graph_of(lambda x: x + 1)
    with pytest.raises(RuntimeError, match=r"'x'.*still had 1 users"):
        graph.erase_node(next(iter(graph.nodes)))


def test_the_insert_point_is_restored():
    graph = graph_of(lambda x: x + 1)
    x, add, output = graph.nodes
    with graph.inserting_before(output):
        neg = graph.call_function(flambeau.neg, (add,))
        output.args = (neg,)
    with graph.inserting_after(x):
        graph.call_method("abs", (x,))
    assert names(graph) == ["x", "abs_1", "add", "neg", "output"]
    graph.call_function(flambeau.neg, (x,))
    assert names(graph)[-1] == "neg_1"


def test_lint_finds_what_is_out_of_order():
    graph = graph_of(lambda x: (x + 1) * 2)
    _, add, mul, _ = graph.nodes
    mul.append(add)
    with pytest.raises(RuntimeError, match=r"'add'.*'mul'.*used before it has been defined"):
        graph.lint()


def test_lint_finds_nodes_of_other_graphs_and_members_that_are_not_there():
    first, second = graph_of(lambda x: x + 1), graph_of(lambda x: x * 2)
    second.output_node().args = (first.output_node().args[0],)
    with pytest.raises(RuntimeError, match=r"'add'.*does not belong to this Graph"):
        second.lint()
    module = fx.symbolic_trace(lambda x: x)
    with pytest.warns(UserWarning, match="'missing'"):
        module.graph.get_attr("missing")
    with pytest.raises(RuntimeError, match="'missing', a nonexistent attribute"):
        module.graph.lint()


def test_dead_code_goes_but_for_side_effects():
    def record(x):
        return x

    graph = graph_of(lambda x: (x * 2).neg() and x if False else x.abs())
    x, absolute, _ = graph.nodes
    with graph.inserting_after(x):
        graph.call_function(record, (x,))
        graph.call_function(flambeau.neg, (x,))
    assert graph.eliminate_dead_code()
    assert names(graph) == ["x", "abs_1", "output"]
    fx.has_side_effect(record)
    with graph.inserting_before(absolute):
        graph.call_function(record, (x,))
    assert not graph.eliminate_dead_code()
    assert names(graph) == ["x", "record_1", "abs_1", "output"]


def test_a_node_checks_its_op_and_target():
    graph = fx.Graph()
    with pytest.raises(ValueError, match="must be a callable, got str"):
        graph.create_node("call_function", "relu")
    with pytest.raises(AssertionError, match="op must be one of"):
        graph.create_node("call", "relu")


def test_map_arg_reaches_into_containers():
    graph = fx.Graph()
    x = graph.placeholder("x")
    mapped = fx.map_arg(([x, 1], {"a": (x,)}, slice(x, None)), lambda node: node.name)
    assert mapped == (["x", 1], {"a": ("x",)}, slice("x", None))


def test_find_nodes_needs_a_function_for_calls_of_functions():
    graph = graph_of(lambda x: x.relu() + x.relu())
    assert [node.name for node in graph.find_nodes(op="call_method", target="relu")] == [
        "relu", "relu_1",
    ]  # fmt: skip
    with pytest.raises(AssertionError, match="needs a target"):
        graph.find_nodes(op="call_function")


def test_arguments_can_be_matched_with_parameters():
    module = fx.symbolic_trace(nn.Sequential(nn.Linear(2, 2)))
    (call,) = module.graph.find_nodes(op="call_module")
    (x,) = call.args
    assert call.normalized_arguments(module, normalize_to_only_use_kwargs=True) == (
        (), {"input": x},
    )  # fmt: skip
    graph = graph_of(lambda x: flambeau.flatten(x, 1))
    flatten = graph.find_nodes(op="call_function", target=flambeau.flatten)[0]
    assert flatten.normalized_arguments(module) == ((flatten.args[0], 1), {"end_dim": -1})
    assert x.normalized_arguments(module) is None


def test_print_tabular_shows_the_nodes(capsys):
    pytest.importorskip("tabulate", reason="the table is tabulate's")
    graph_of(lambda x: x + 1).print_tabular()
    assert "call_function" in capsys.readouterr().out
