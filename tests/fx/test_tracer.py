"""Tracing: what is recorded, what is looked into, and what cannot be traced."""

import math
import threading

import pytest

import flambeau
from flambeau import fx, nn
from flambeau.nn import functional as F
from tests.fx.models import Model, checked, doubled_if_positive


def ops(function, **options):
    return [(n.op, n.name) for n in fx.symbolic_trace(function, **options).graph.nodes][1:-1]


def test_layers_are_leaves_and_sequences_are_looked_into():
    graph = fx.symbolic_trace(Model()).graph
    assert [node.target for node in graph.nodes if node.op == "call_module"] == [
        "linear", "block.0", "block.1",
    ]  # fmt: skip
    assert graph.find_nodes(op="call_function", target=doubled_if_positive)
    assert [n.target for n in graph.find_nodes(op="get_attr")] == ["weight", "mean"]


def test_modules_are_as_before_when_tracing_has_ended_or_failed():
    before = nn.Module.__call__, nn.Module.__getattr__
    fx.symbolic_trace(Model())
    with pytest.raises(fx.proxy.TraceError, match="control flow"):
        fx.symbolic_trace(lambda x: 1 if x else 2)
    assert (nn.Module.__call__, nn.Module.__getattr__) == before
    assert not fx._symbolic_trace.is_fx_tracing()
    assert doubled_if_positive(flambeau.ones(2)).tolist() == [2.0, 2.0]


def test_another_thread_is_not_traced():
    model, x = Model(), flambeau.ones(2, 4)
    expected = model(x)
    results = []

    class Meanwhile(fx.Tracer):
        def call_module(self, m, forward, args, kwargs):
            thread = threading.Thread(target=lambda: results.append(model(x)))
            thread.start()
            thread.join()
            return super().call_module(m, forward, args, kwargs)

    graph = Meanwhile().trace(model)
    assert len(results) == len(graph.find_nodes(op="call_module")) + 1
    assert all(flambeau.equal(each, expected) for each in results)


@pytest.mark.parametrize(
    ("function", "recorded"),
    [
        (lambda x: flambeau.ones(4).view(x), "view"),
        (lambda x: flambeau.ones(4)[x], "getitem"),
        (lambda x: flambeau.ones(4).expand(x, 4), "expand"),
        (lambda x: flambeau.zeros(2).fill_(x), "fill_"),
        (lambda x: flambeau.sum(flambeau.ones(4), dim=x), "sum_1"),
        (lambda x: flambeau.full((2,), x), "full"),
        (lambda x: flambeau.randn(2, x), "randn"),
        (lambda x: flambeau.eye(x), "eye"),
        (lambda x: flambeau.linspace(0, 1, x), "linspace"),
        (lambda x: flambeau.cat(x), "cat"),
        (lambda x: flambeau.add(flambeau.ones(4), x), "add"),
        (lambda x: flambeau.dropout(x, 0.5, True), "dropout"),
        (lambda x: F.dropout(flambeau.ones(4), x), "dropout"),
        (lambda x: F.pad(flambeau.ones(4), (x, 1)), "pad"),
        (lambda x: F.conv1d(flambeau.ones(1, 1, 4), flambeau.ones(1, 1, 2), stride=x), "conv1d"),
        (lambda x: flambeau.linalg.norm(x), "linalg_norm"),
        (lambda x: flambeau.einsum("i,i", x, x), "einsum"),
        (lambda x: math.sqrt(x), "sqrt"),
        (lambda x: x.shape, "getattr_1"),
        (lambda x: x(1), "call"),
    ],
)
def test_a_proxy_is_recorded_wherever_it_stands(function, recorded):
    calls = [name for op, name in ops(function) if op != "get_attr"]
    assert calls == [recorded]


def test_recorded_functions_are_the_public_ones():
    for name in ("softmax", "dropout", "interpolate", "cross_entropy", "relu", "batch_norm"):
        function = getattr(F, name)
        graph = fx.Graph()
        proxy = fx.Proxy(graph.placeholder("x"))
        arguments = {"cross_entropy": 2, "batch_norm": 3}.get(name, 1)
        assert function(*[proxy] * arguments).node.target is function


def test_a_subclass_of_tensor_is_asked_by_the_operators_of_a_function():
    seen = []

    class Loud(flambeau.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append(func)
            return super().__torch_function__(func, types, args, kwargs)

    F.softmax(flambeau.ones(2).as_subclass(Loud), -1)
    assert seen
    assert F.softmax not in seen


def test_a_parameter_must_belong_to_the_module():
    stranger = nn.Parameter(flambeau.ones(2))
    with pytest.raises(NameError, match="not a member of this module"):
        fx.symbolic_trace(lambda x: x + stranger)


def test_a_module_must_be_below_the_root():
    layer = nn.ReLU()
    with pytest.raises(NameError, match=r"ReLU.*not installed as a submodule"):
        fx.symbolic_trace(lambda x: layer(x))


def test_sizes_of_parameters_may_be_numbers():
    class Sized(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(flambeau.ones(2, 3))

        def forward(self, x):
            return x * 2 if self.weight.shape[1] == 3 else x

    graph = fx.Tracer(param_shapes_constant=True).trace(Sized())
    assert "mul" in [node.name for node in graph.nodes]
    with pytest.raises(fx.proxy.TraceError):
        fx.Tracer().trace(Sized())


def test_buffers_may_be_proxies():
    class Buffers(fx.Tracer):
        proxy_buffer_attributes = True

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("mean", flambeau.zeros(2))

        def forward(self, x):
            return self.mean.exp()

    model = Model()
    assert [node.op for node in fx.Tracer().trace(model).nodes] == [
        "placeholder", "get_attr", "output",
    ]  # fmt: skip
    names = [node.name for node in Buffers().trace(model).nodes]
    assert names == ["x", "mean", "exp", "output"]


def test_assertions_can_be_recorded():
    class Asserting(fx.Tracer):
        trace_asserts = True

    module = fx.GraphModule(nn.Module(), Asserting().trace(checked))
    assert module(flambeau.ones(2)).tolist() == [2.0, 2.0]
    with pytest.raises(AssertionError, match="traced assertion"):
        module(-flambeau.ones(2))
    with pytest.raises(fx.proxy.TraceError):
        fx.symbolic_trace(checked)


def test_stack_traces_name_the_line():
    class Tracing(fx.Tracer):
        record_stack_traces = True

    class Added(nn.Module):
        def forward(self, x):
            return x + 1  # this line

    _, add, _ = Tracing().trace(Added()).nodes
    assert "this line" in add.stack_trace


def test_a_tracer_may_give_iterators():
    class Pairs(fx.Tracer):
        def iter(self, obj):
            return iter([obj[0], obj[1]])

    graph = Pairs().trace(lambda x: [each + 1 for each in x])
    assert [node.name for node in graph.nodes][1:-1] == ["getitem", "getitem_1", "add", "add_1"]


def test_nodes_know_the_module_that_they_were_recorded_in():
    graph = fx.symbolic_trace(nn.Sequential(nn.Sequential(nn.ReLU()))).graph
    (node,) = graph.find_nodes(op="call_module")
    assert list(node.meta["nn_module_stack"]) == ["0", "0.0"]


def test_classes_can_be_recorded():
    class Pair(metaclass=fx.ProxyableClassMeta):
        def __init__(self, left, right):
            self.left, self.right = left, right

    module = fx.symbolic_trace(lambda x: Pair(x, x + 1))
    assert module(flambeau.ones(1)).right.tolist() == [2.0]
    assert Pair(1, 2).left == 1


def test_wrap_is_for_the_top_level_of_a_module():
    with pytest.raises(NotImplementedError, match="top level"):
        fx.wrap("len")
    with pytest.raises(RuntimeError, match="a function or the name"):
        fx.wrap(3)


def test_only_functions_and_modules_can_be_traced():
    with pytest.raises(TypeError, match="Python function"):
        fx.symbolic_trace(len)


def test_arguments_are_checked_against_what_a_function_was_specialized_to():
    module = fx.symbolic_trace(
        lambda x, y, z: x if y else x + z, concrete_args={"y": True, "z": None}
    )
    assert module(3, True, None) == 3
    with pytest.raises(AssertionError, match="y has been specialized to have value True"):
        module(3, False, None)
    with pytest.raises(AssertionError, match="z has been specialized to have value None"):
        module(3, True, 1)


def test_containers_of_a_specialized_function_must_have_the_same_structure():
    def f(x):
        return {"sum": x["a"] + x["b"][0]}

    module = fx.symbolic_trace(f, concrete_args={"x": {"a": fx.PH, "b": [fx.PH]}})
    assert module({"a": 1, "b": [2]}) == {"sum": 3}
    with pytest.raises(RuntimeError, match="traced for"):
        module({"a": 1, "b": [2, 3]})
