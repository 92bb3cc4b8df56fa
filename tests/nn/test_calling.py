"""What a call does besides running `forward`."""

import pytest

import flambeau
from flambeau import nn
from flambeau.core.support.modes import modes


class Echo(nn.Module):
    def forward(self, *args, **kwargs):
        return args[0] if args else kwargs


def test_module_without_forward_says_what_to_define():
    class Bare(nn.Module):
        pass

    with pytest.raises(NotImplementedError, match=r"Bare has no forward\(\)"):
        Bare()(1)


def test_call_before_init_says_what_to_call():
    class Early(Echo):
        def __init__(self):
            self(1)

    with pytest.raises(AttributeError, match=r"call a Early .* super\(\).__init__\(\)"):
        Early()


def test_error_in_forward_is_not_taken_for_a_missing_table():
    class Failing(nn.Module):
        def forward(self, x):
            raise KeyError("inside")

    with pytest.raises(KeyError, match="inside"):
        Failing()(1)


def test_pre_hook_with_keywords_must_return_both():
    echo = Echo()
    echo.register_forward_pre_hook(lambda module, args, kwargs: (1, 2, 3), with_kwargs=True)
    with pytest.raises(RuntimeError, match=r"\(args, kwargs\), but returned \(1, 2, 3\)"):
        echo(1)


def test_failing_always_called_hook_becomes_a_warning():
    class Failing(nn.Module):
        def forward(self, x):
            raise ValueError("forward")

    def hook(module, args, output):
        raise KeyError("hook")

    failing = Failing()
    failing.register_forward_hook(hook, always_call=True)
    with (
        pytest.warns(UserWarning, match="Failing .* 'hook'"),
        pytest.raises(ValueError, match="forward"),
    ):
        failing(1)


def test_global_always_called_hook_gets_keywords_when_the_call_fails():
    class Failing(nn.Module):
        def forward(self, x, key):
            raise ValueError("forward")

    seen = []
    handle = nn.modules.module.register_module_forward_hook(
        lambda *given: seen.append(given[1:]), with_kwargs=True, always_call=True
    )
    with handle, pytest.raises(ValueError, match="forward"):
        Failing()(1, key=2)
    assert seen == [((1,), {"key": 2}, None)]


def test_two_kinds_of_backward_hooks_are_named_in_the_error():
    echo = Echo()
    echo.register_backward_hook(print)
    with pytest.raises(RuntimeError, match=r"full backward hook on this Echo: non-full"):
        echo.register_full_backward_hook(print)


def test_compiled_call_takes_the_place_of_the_eager_one():
    echo = Echo()
    calls = []
    echo._compiled_call_impl = lambda *args: calls.append(args) or "compiled"
    assert echo(1) == "compiled"
    echo._compiled_call_impl = None
    assert echo(1) == 1
    assert calls == [(1,)]


def test_compile_method_gives_the_eager_result():
    class Double(nn.Module):
        def forward(self, x):
            return x * 2

    double = Double()
    double.compile()
    x = flambeau.tensor([1.0, 2.0])
    assert double(x).tolist() == [2.0, 4.0]
    double.register_forward_hook(lambda module, args, output: output + 1)
    assert double(x).tolist() == [3.0, 5.0]


class RecordingTrace:
    """What a call needs of a trace."""

    def __init__(self):
        self.entered = []
        self.watched = []

    def enter(self, module):
        self.entered.append(module)

    def watch(self, owner, snapshot):
        self.watched.append(snapshot())

    def touch(self, table):
        pass

    def touch_hooks(self, table):
        pass


@pytest.fixture
def trace():
    modes.trace = RecordingTrace()
    yield modes.trace
    modes.trace = None


def test_trace_is_told_of_the_whole_tree_and_of_global_hooks(trace):
    model = nn.Sequential(Echo(), nn.Sequential(Echo()))
    with nn.modules.module.register_module_forward_hook(lambda *given: None) as handle:
        model(1)
    assert set(trace.entered) == set(model.modules())
    assert all(handle.id in dict(hooks[3]) for hooks in trace.watched)


def test_layer_added_to_a_list_after_compiling_is_seen():
    class Chain(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([Echo()])

        def forward(self, x):
            for layer in self.layers:
                x = layer(x) + 1
            return x

    chain = Chain()
    compiled = flambeau.compile(lambda x: chain(x))
    assert compiled(flambeau.zeros(1)).item() == 1
    chain.layers.append(Echo())
    assert compiled(flambeau.zeros(1)).item() == 2


def test_a_hook_that_removes_itself_leaves_a_compiled_module_open_to_others():
    layer = Echo()
    compiled = flambeau.compile(layer)
    handle = layer.register_forward_hook(lambda *given: handle.remove())
    assert [compiled(flambeau.ones(1)).item() for _ in range(2)] == [1, 1]
    layer.register_forward_hook(lambda module, args, output: output * 3)
    assert compiled(flambeau.ones(1)).item() == 3


def test_a_hook_added_by_a_hook_is_called_from_the_next_compiled_call_on():
    def add_another(module, args, output):
        handle.remove()
        module.register_forward_hook(lambda module, args, output: output * 3)

    layer = Echo()
    handle = layer.register_forward_hook(add_another)
    compiled = flambeau.compile(layer)
    assert [compiled(flambeau.ones(1)).item() for _ in range(3)] == [1, 3, 3]


def test_call_impl_of_a_mixin_is_called():
    class Twice:
        def _call_impl(self, *args, **kwargs):
            return 2 * super()._call_impl(*args, **kwargs)

    class Doubled(Twice, Echo):
        pass

    layer = Doubled()
    assert layer(3) == 6
    assert flambeau.compile(layer)(flambeau.ones(1)).item() == 2


def test_a_call_impl_that_comes_later_is_called(monkeypatch):
    class Late(Echo):
        pass

    layer, twice = Late(), Echo._call_impl
    assert layer(3) == 3
    Late._call_impl = lambda self, *args: 2 * twice(self, *args)
    assert layer(3) == 6
    layer._call_impl = lambda *args: "its own"
    assert layer(3) == "its own"
    old = nn.Module._call_impl
    monkeypatch.setattr(nn.Module, "_call_impl", lambda self, *args: 3 * old(self, *args))
    assert Echo()(3) == 9
