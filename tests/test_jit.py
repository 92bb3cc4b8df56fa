"""What TorchScript leaves behind: decorators, types, settings and classes to be named."""

from typing import Any, Optional

import pytest

import flambeau
from flambeau import jit, nn, onnx
from flambeau.jit.annotations import BroadcastingList2
from flambeau.onnx.symbolic_helper import parse_args

# As code for older versions of Python writes it.
OPTIONAL = Optional[int]  # noqa: UP045


@pytest.mark.parametrize(
    "decorate",
    [
        jit.script, jit.export, jit.unused, jit.ignore, jit.ignore(drop=True), jit.interface,
        jit.script_method, jit.script_if_tracing, jit._overload, jit._overload_method,
        jit._script_if_tracing, parse_args("v", "i"),
    ],
)  # fmt: skip
def test_what_is_decorated_stays(decorate):
    def function(x):
        return x

    assert decorate(function) is function


def test_a_module_written_for_torchscript_computes_by_python():
    class Net(jit.ScriptModule):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(2, 2)

        @jit.script_method
        def forward(self, x):
            return self.layer(x)

    net = Net()
    assert net(flambeau.ones(1, 2)).shape == (1, 2)
    assert isinstance(net, flambeau.ScriptModule)
    layer = nn.Linear(2, 2)
    assert not isinstance(layer, jit.ScriptModule)
    assert isinstance(jit.script(layer), jit.ScriptModule)
    assert not isinstance(layer, jit.TracedModule)
    assert not isinstance(jit.script(len), jit.ScriptFunction)


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        ([1], list[int], True), (["a"], list[int], False), ({"a": 1}, dict[str, int], True),
        ({1: 1}, dict[str, int], False), ((1, "a"), tuple[int, str], True),
        ((1,), tuple[int, str], False), ((1, 2), tuple[int, ...], True), (None, OPTIONAL, True),
        ("a", int | None, False), (3, Any, True), (3, (str, int), True),
        ([[1.0]], list[list[float]], True),
    ],
)  # fmt: skip
def test_values_are_of_types(value, kind, expected):
    assert jit.isinstance(value, kind) == expected


def test_settings_are_accepted():
    with jit.fuser("fuser1"), jit.optimized_execution(False), jit.strict_fusion():
        assert not jit.is_tracing()
    before = jit.set_fusion_strategy([("STATIC", 1)])
    assert jit.set_fusion_strategy(before) == [("STATIC", 1)]
    jit.enable_onednn_fusion(True)
    assert jit.onednn_fusion_enabled()
    jit.enable_onednn_fusion(False)
    assert jit._unwrap_optional(3) == 3
    assert BroadcastingList2[int] == int | list[int]


def test_nothing_is_exported_to_onnx():
    assert not onnx.is_in_onnx_export()
    with pytest.raises(NotImplementedError, match=r"flambeau\.export"):
        onnx.export(nn.Linear(2, 2), (flambeau.ones(1, 2),), "model.onnx")
    onnx.register_custom_op_symbolic("library::op", len, 11)
    onnx.unregister_custom_op_symbolic("library::op", 11)
    assert onnx.TrainingMode.EVAL == 0


def test_hints_of_the_compiler_leave_functions_as_they_are():
    compiler = flambeau.compiler
    hints = [
        compiler.disable, compiler.disable(recursive=False), compiler.allow_in_graph,
        compiler.assume_constant_result, compiler.nested_compile_region,
        compiler.nested_compile_region(), compiler.substitute_in_graph(len),
    ]  # fmt: skip

    def double(x):
        return x * 2

    assert all(hint(double) is double for hint in hints)
    compiler.cudagraph_mark_step_begin()
    compiler.reset()
    assert compiler.list_backends() == []


def test_a_disabled_function_becomes_a_part_of_a_compiled_one():
    @flambeau.compiler.disable
    def double(x):
        return x * 2

    step = flambeau.compile(lambda x: double(x) + 1)
    assert step(flambeau.ones(2)).tolist() == [3, 3]
    assert step.program_count == 1


def test_what_is_traced_is_compiled():
    net = nn.Sequential(nn.Linear(2, 3), nn.Dropout(0.5))
    traced = jit.trace(net, flambeau.ones(1, 2))
    assert isinstance(traced, nn.Sequential)
    # A program of PyTorch's keeps the mode and the branches of the examples.
    net.eval()
    x = flambeau.ones(4, 2)
    assert flambeau.allclose(traced(x), net(x))
    double = jit.trace(lambda x, y=None: x * 2 if y is None else x + y, (flambeau.ones(1),))
    assert double(flambeau.ones(2)).tolist() == [2, 2]
    assert double(flambeau.ones(2), flambeau.ones(2)).tolist() == [2, 2]
    named = jit.trace(lambda x: x * 2, example_kwarg_inputs={"x": flambeau.ones(1)})
    assert named(flambeau.ones(1)).tolist() == [2]
    module = jit.trace_module(nn.Linear(2, 3), {"forward": (flambeau.ones(1, 2),)})
    assert jit.freeze(jit.optimize_for_inference(module)) is module
    assert module(x).shape == (4, 3)


def test_what_tracing_refuses():
    with pytest.raises(RuntimeError, match="example_inputs"):
        jit.trace(lambda x: x)
    with pytest.raises(NotImplementedError, match="state_dict"):
        jit.save(nn.Linear(1, 1), "model.pt")
    with pytest.raises(NotImplementedError, match="state_dict"):
        jit.load("model.pt")
