"""GraphModules: generated code, members, copies and pickles; training and compiling them."""

import copy
import pickle
import traceback

import pytest

import flambeau
from flambeau import fx, nn
from tests.fx.models import Model


@pytest.fixture
def model():
    flambeau.manual_seed(0)
    return Model()


@pytest.fixture
def x():
    return flambeau.ones(2, 4)


def replace_softmax(module, target, args):
    for node in module.graph.nodes:
        if node.name == "softmax":
            node.target, node.args, node.kwargs = target, (node.args[0], *args), {}
    module.recompile()


def test_the_members_are_those_of_the_traced_module(model, x):
    traced = fx.symbolic_trace(model)
    assert traced.weight is model.weight
    assert dict(traced.state_dict()).keys() == dict(model.state_dict()).keys()
    assert flambeau.equal(traced(x), model(x))
    assert type(traced).__name__ == "Model"
    assert isinstance(traced, fx.GraphModule)


def test_it_trains(model, x):
    traced = fx.symbolic_trace(model)
    traced(x)[0, 0].backward()
    gradient = model.linear.weight.grad.clone()
    model.zero_grad()
    model(x)[0, 0].backward()
    assert flambeau.equal(model.linear.weight.grad, gradient)


def test_two_modules_have_code_of_their_own(x):
    first, second = fx.symbolic_trace(lambda x: x + 1), fx.symbolic_trace(lambda x: x + 2)
    assert (first(x) + second(x)).sum() == 2 * 4 * (2 + 3)


def test_a_compiled_module_sees_changes_of_its_graph(model, x):
    traced = fx.symbolic_trace(model)
    compiled = flambeau.compile(traced)
    flambeau.testing.assert_close(compiled(x), model(x))
    replace_softmax(traced, flambeau.relu, ())
    flambeau.testing.assert_close(compiled(x), traced(x))
    assert not flambeau.allclose(compiled(x), model(x))
    traced.graph = fx.symbolic_trace(lambda x: x * 3).graph
    assert flambeau.equal(compiled(x), x * 3)


def test_a_compiled_step_sees_changes_of_a_graph_inside(model, x):
    traced = fx.symbolic_trace(model)
    step = flambeau.compile(lambda x: traced(x).sum())
    flambeau.testing.assert_close(step(x), model(x).sum())
    replace_softmax(traced, flambeau.mul, (2,))
    flambeau.testing.assert_close(step(x), traced(x).sum())


def test_tracing_leaves_compiled_functions_as_they_are(model, x, all_compiled):
    compiled = flambeau.compile(model)
    compiled(x)
    before = flambeau.compiler.stats()["compiled"]
    fx.symbolic_trace(Model())
    compiled(x)
    assert flambeau.compiler.stats()["compiled"] == before


def test_deepcopy_copies_the_members_and_the_graph(model, x):
    traced = fx.symbolic_trace(model)
    traced.meta["note"] = [1]
    copied = copy.deepcopy(traced)
    assert copied.code == traced.code
    assert copied.meta == {"note": [1]}
    assert copied.linear.weight is not traced.linear.weight
    replace_softmax(copied, flambeau.relu, ())
    assert not flambeau.allclose(copied(x), traced(x))
    assert flambeau.equal(traced(x), model(x))


def test_copy_shares_the_members(model, x):
    copied = copy.copy(fx.symbolic_trace(model))
    assert copied.linear is model.linear
    assert flambeau.equal(copied(x), model(x))


def test_a_pickle_has_the_code_and_the_members(model, x):
    traced = fx.symbolic_trace(model)
    loaded = pickle.loads(pickle.dumps(traced))
    assert flambeau.equal(loaded(x), model(x))
    assert [n.name for n in loaded.graph.nodes] == [n.name for n in traced.graph.nodes]
    assert loaded.state_dict().keys() == traced.state_dict().keys()
    assert type(loaded).__name__ == "Model"


def test_a_pickle_of_a_specialized_function():
    traced = fx.symbolic_trace(
        lambda x, y=None: x if y is None else x + y, concrete_args={"y": None}
    )
    assert pickle.loads(pickle.dumps(traced))(3) == 3


def test_what_cannot_be_imported_cannot_be_pickled():
    def local(x):
        return x

    module = fx.symbolic_trace(lambda x: x + 1)
    x, add, _ = module.graph.nodes
    with module.graph.inserting_after(x):
        add.args = (module.graph.call_function(local, (x,)), 1)
    with pytest.raises(RuntimeError, match="not a global of a module"):
        pickle.dumps(module)


def test_submodules_come_and_go(model):
    traced = fx.symbolic_trace(model)
    assert traced.add_submodule("extra.inner", nn.ReLU())
    assert not traced.add_submodule("weight.inner", nn.ReLU())
    assert isinstance(traced.extra.inner, nn.ReLU)
    traced.delete_all_unused_submodules()
    assert [name for name, _ in traced.named_modules()] == [
        "", "linear", "block", "block.0", "block.1",
    ]  # fmt: skip
    assert traced.delete_submodule("block.0")
    assert not traced.delete_submodule("block.0")
    assert not traced.delete_submodule("weight")


def test_members_may_come_from_a_dictionary():
    graph = fx.Graph()
    graph.output(graph.call_module("a.b", (graph.get_attr("a.c"),)))
    module = fx.GraphModule({"a.c": flambeau.ones(2), "a.b": nn.ReLU()}, graph)
    assert dict(module.named_buffers()).keys() == {"a.c"}
    assert module().tolist() == [1.0, 1.0]
    with pytest.raises(RuntimeError, match=r"'a.c'.*not in the given dictionary"):
        fx.GraphModule({"a.b": nn.ReLU()}, graph)


def test_a_tensor_among_arguments_cannot_be_code():
    graph = fx.Graph()
    graph.output(graph.call_function(flambeau.neg, (flambeau.ones(2),)))
    with pytest.raises(RuntimeError, match=r"Tensor of shape \[2\].*get_attr"):
        fx.GraphModule({}, graph)


def test_errors_show_the_generated_line():
    module = fx.symbolic_trace(lambda x: x.view(3))
    with pytest.raises(RuntimeError) as error:
        module(flambeau.ones(2))
    assert "view = x.view(3)" in "".join(traceback.format_exception(error.value))


def test_print_readable_shows_shapes_and_inner_modules(capsys):
    inner = fx.symbolic_trace(lambda x: x * 2)
    outer = fx.GraphModule({"inner": inner}, fx.Tracer().trace(lambda x: x + 1))
    outer.add_submodule("inner", inner)
    fx.passes.shape_prop.ShapeProp(outer).propagate(flambeau.ones(2, 3))
    text = outer.print_readable()
    assert 'add: "f32[2, 3]" = x + 1' in text
    assert "class inner(" in text
    assert text in capsys.readouterr().out
    assert "print_readable" in str(outer)


def test_the_hooks_of_modules_run(model, x):
    traced = fx.symbolic_trace(model)
    seen = []
    traced.linear.register_forward_hook(lambda module, args, result: seen.append(module))
    traced(x)
    assert seen == [traced.linear]
