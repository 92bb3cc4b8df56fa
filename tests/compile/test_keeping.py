"""What a compiled function puts into containers and attributes outside is there at each call."""

import collections
import functools
import types

import jax
import pytest

import flambeau
from flambeau import nn
from flambeau.compile.errors import CompileError
from flambeau.compile.program import Program
from tests.compile.following import check_refused

pytestmark = pytest.mark.filterwarnings("error")


def layers():
    flambeau.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 3))


def a_list_through_a_hook():
    net, kept = layers(), []
    net[0].register_forward_hook(lambda module, args, output: kept.append(output))
    return net, kept


def a_dictionary_through_hooks():
    net, kept = layers(), {}

    def keep_as(name):
        def hook(module, args, output):
            kept[name] = output.detach()

        return hook

    for name, layer in net.named_children():
        layer.register_forward_hook(keep_as(name))
    return net, kept


def a_partial_function():
    net, kept = layers(), {}

    def keep(name, module, args, output):
        kept[name] = output

    net[1].register_forward_hook(functools.partial(keep, "tanh"))
    return net, kept


def a_partial_function_with_the_container():
    net, first, second = layers(), {}, []

    def keep(store, name, module, args, output, *, others):
        store[name] = output
        others.append(output.sum())

    hook = functools.partial(functools.partial(keep, first), "tanh", others=second)
    net[1].register_forward_hook(hook)
    return net, [first, second]


def a_default_argument():
    net, kept = layers(), {}

    def keep(module, args, output, kept=kept, *, name="x", others=kept):
        kept[name] = output
        others["y"] = output * 2

    net[1].register_forward_hook(keep)
    return net, kept


class Recorder:
    def __init__(self):
        self.features = {}
        self.order = []

    def hook(self, module, args, output):
        self.features[type(module).__name__] = output
        self.order.append(("out", output))

    def __call__(self, module, args, output):
        self.hook(module, args, output)


def a_bound_method():
    net, recorder = layers(), Recorder()
    net[1].register_forward_hook(recorder.hook)
    return net, vars(recorder)


def a_callable_object():
    net, recorder = layers(), Recorder()
    net[1].register_forward_hook(recorder)
    return net, vars(recorder)


class Shared:
    def hook(self, module, args, output):
        self.features.append(output)


def an_attribute_of_a_class():
    net, kept = layers(), []

    class Own(Shared):
        features = kept

    net[1].register_forward_hook(Own().hook)
    return net, kept


def a_slot_of_a_class():
    class Slotted:
        __slots__ = ("features",)

        def hook(self, module, args, output):
            self.features.append(output)

    net, recorder = layers(), Slotted()
    recorder.features = kept = []
    net[1].register_forward_hook(recorder.hook)
    return net, kept


def an_attribute_of_the_module_of_a_hook():
    net = layers()
    net[1].kept = []
    net[1].register_forward_hook(lambda module, args, output: module.kept.append(output))
    return net, net[1].kept


def a_hook_for_all_modules():
    net, kept = layers(), []

    def hook(module, args, output):
        kept.append(output)

    handle = nn.modules.module.register_module_forward_hook(hook)
    return net, kept, handle


def a_backward_hook():
    net, kept = layers(), []

    def hook(module, before, after):
        kept.append(after[0])

    net[2].register_full_backward_hook(hook)
    return net, kept


def a_hook_on_a_parameter():
    net, kept = layers(), []
    net[2].weight.register_hook(lambda grad: kept.append(grad.norm()))
    return net, kept


def a_hook_on_a_tensor():
    net, kept = layers(), []

    def keep(module, args, output):
        if output.requires_grad:
            output.register_hook(lambda grad: kept.append(grad))

    net[1].register_forward_hook(keep)
    return net, kept


class History(nn.Module):
    def __init__(self, write):
        super().__init__()
        self.layers = layers()
        self.write = types.MethodType(write, self)
        self.history = []
        self.cache = {}

    def forward(self, x):
        y = self.layers(x)
        self.write(y)
        return y


def within(write):
    """A module with these lines in its `forward`."""

    def make():
        net = History(write)
        return net, [net.history, net.cache]

    make.__name__ = write.__name__
    return make


@within
def appended(self, y):
    self.history.append(y)


@within
def added_in_place(self, y):
    self.history += [y, y * 2]


@within
def extended(self, y):
    self.history.extend(each for each in (y, y.sum()))


@within
def put_in_front(self, y):
    self.history.insert(0, y)


@within
def cleared_and_filled(self, y):
    self.history.clear()
    self.history.append(y)
    self.history.append(self.history[0] + len(self.history))
    self.history[-1] = self.history[-1] * 2


@within
def deleted_and_filled(self, y):
    del self.history[:]
    self.history[:] = [y, y + 1]


@within
def filled_anew(self, y):
    self.cache.clear()
    self.cache["k"] = y
    self.cache.update(v=self.cache["k"] * 2)


@within
def set_and_removed(self, y):
    self.cache["k"] = y
    self.cache["v"] = y
    del self.cache["k"]
    self.cache["last"] = self.cache.pop("v")


@within
def nested(self, y):
    self.cache["step"] = {"y": [y, (y.sum(), "label", None)]}
    self.cache["step"]["more"] = collections.OrderedDict(z=y * 2)


@within
def the_same_tensor_twice(self, y):
    self.history.append(y)
    self.cache["y"] = y


@within
def the_same_new_container_twice(self, y):
    made = [y]
    self.history.append(made)
    self.cache["y"] = made
    made.append(y * 2)


@within
def one_container_in_the_other(self, y):
    self.history.append(y)
    self.cache["history"] = self.history


@within
def lists_made_on_demand(self, y):
    self.cache.setdefault("a", []).append(y)
    self.cache.setdefault("b", {})["c"] = y
    self.cache.setdefault("b", {})["d"] = y * 2


@within
def a_named_tuple(self, y):
    self.history.append(Pair(y, [y * 2]))


Pair = collections.namedtuple("Pair", ["left", "right"])


def lists_of_a_defaultdict():
    net, kept = layers(), collections.defaultdict(list)

    def keep(name, module, args, output):
        kept[name].append(output)

    for name, layer in net.named_children():
        layer.register_forward_hook(functools.partial(keep, name))
    return net, kept


def dictionaries_of_defaultdicts():
    net = layers()
    kept = collections.defaultdict(lambda: collections.defaultdict(list))

    def keep(module, args, output):
        kept[type(module).__name__]["output"].append(output)
        kept[type(module).__name__]["sum"].append(output.sum())

    net[0].register_forward_hook(keep)
    return net, kept


def a_deque_that_is_full():
    net, kept = layers(), collections.deque(maxlen=2)
    net[0].register_forward_hook(lambda module, args, output: kept.append(output))
    net[1].register_forward_hook(lambda module, args, output: kept.appendleft(output))
    return net, kept


def an_ordered_dictionary():
    net, kept = layers(), collections.OrderedDict()

    def keep(module, args, output):
        kept[type(module).__name__] = output
        kept.update(more=output, less=-output)

    net[1].register_forward_hook(keep)
    return net, kept


def nested_lists_that_are_there():
    net, kept = layers(), {"a": [], "b": ([], [])}

    def keep(module, args, output):
        kept["a"].append(output)
        kept["b"][1].append(output.sum())

    net[1].register_forward_hook(keep)
    return net, kept


SCENES = [
    a_list_through_a_hook, a_dictionary_through_hooks, a_partial_function,
    a_partial_function_with_the_container, a_default_argument, a_bound_method, a_callable_object,
    an_attribute_of_a_class, a_slot_of_a_class, an_attribute_of_the_module_of_a_hook,
    a_hook_for_all_modules, a_backward_hook, a_hook_on_a_parameter, a_hook_on_a_tensor, appended,
    added_in_place, extended, put_in_front, cleared_and_filled, deleted_and_filled, filled_anew,
    set_and_removed, nested, the_same_tensor_twice, the_same_new_container_twice,
    one_container_in_the_other, lists_made_on_demand, a_named_tuple, lists_of_a_defaultdict,
    dictionaries_of_defaultdicts, a_deque_that_is_full, an_ordered_dictionary,
    nested_lists_that_are_there,
]  # fmt: skip
OF_GRADIENTS = [a_backward_hook, a_hook_on_a_tensor]


def plain(value, tensors):
    """``value`` in a form that compares; which tensors and containers are the same counts."""
    if isinstance(value, flambeau.Tensor):
        first = tensors.setdefault(id(value), len(tensors))
        return first, value.requires_grad, value.detach().numpy().round(5).tolist()
    if isinstance(value, dict):
        return type(value), [(key, plain(each, tensors)) for key, each in value.items()]
    if isinstance(value, (list, tuple, collections.deque)):
        first = tensors.setdefault(id(value), len(tensors)) if value else -1
        return type(value), first, [plain(each, tensors) for each in value]
    return value


def play(scene, compiled, backward):
    """What stands in the containers, and the gradients, after each of four calls."""
    net, kept, *handles = scene()

    def run(x):
        y = net(x)
        if backward == "inside":
            net.zero_grad()
            y.sum().backward()
        return y

    function = flambeau.compile(run) if compiled else run
    seen = []
    for i in range(4):
        x = flambeau.arange(6.0).reshape(2, 3) * 0.1 - i
        with flambeau.set_grad_enabled(backward != "none"):
            y = function(x)
        seen.append(plain([y, kept], {}))
        if backward == "outside":
            (y.sum() * 2).backward()
        seen.append(plain([p.grad for p in net.parameters()], {}))
    for handle in handles:
        handle.remove()
    return seen, getattr(function, "program_count", 1), kept


PLAYS = [
    pytest.param(scene, backward, id=f"{scene.__name__}-{backward}")
    for scene in SCENES
    for backward in ("none", "inside", "outside")
    # Hooks of gradients may not keep anything where backward runs outside.
    if backward == "inside" or scene not in OF_GRADIENTS
]


@pytest.mark.parametrize(("scene", "backward"), PLAYS)
def test_containers_are_as_they_are_eagerly(scene, backward):
    expected, _, kept = play(scene, False, backward)
    assert kept or (scene is a_hook_on_a_parameter and backward == "none")
    found, count, _ = play(scene, True, backward)
    assert found == expected
    assert count == 1


def test_a_container_stays_the_same_object_and_keeps_what_is_in_it():
    first, kept = flambeau.zeros(1), []
    kept.append(first)
    run = flambeau.compile(lambda x: kept.append(x * 2))
    same = kept
    for i in range(2):
        run(flambeau.ones(2))
        assert kept is same
        assert kept[0] is first
        assert len(kept) == 2 + i


def test_what_is_kept_is_what_is_returned():
    kept = []

    @flambeau.compile
    def run(x):
        y = x * 2
        kept.append(y)
        kept.append(x)
        return y

    x = flambeau.ones(2)
    for _ in range(2):
        y = run(x)
        assert kept[-2] is y
        assert kept[-1] is x


def test_a_container_that_is_returned_is_itself():
    class Extractor(nn.Module):
        def __init__(self):
            super().__init__()
            self.features = {}

        def forward(self, x):
            self.features["x"] = x * 2
            return self.features, (self.features, [x])

    model = Extractor()
    run, x = flambeau.compile(model), flambeau.ones(2)
    for _ in range(2):
        found, (again, _) = run(x)
        assert found is again is model.features
        assert found["x"].tolist() == [2.0, 2.0]


def test_a_container_that_is_returned_unchanged_is_itself():
    table = {"x": flambeau.ones(2), "sizes": [1, 2]}
    run, x = flambeau.compile(lambda x: (table, table["sizes"], x * table["x"])), flambeau.ones(2)
    for _ in range(2):
        found, sizes, _ = run(x)
        assert found is table
        assert sizes is table["sizes"]


def test_a_new_container_that_is_kept_is_what_is_returned():
    kept = []

    def run(x):
        made = {"x": x * 2}
        made["self"] = made
        kept.append(made)
        return made

    compiled = flambeau.compile(run)
    for i in range(2):
        made = compiled(flambeau.ones(2))
        assert made is kept[i] is made["self"]


def test_an_object_that_jax_knows_is_kept():
    class Pair:
        def __init__(self, first, second):
            self.first, self.second = first, second

    flatten = (lambda each: ((each.first, each.second), None)), (lambda _, parts: Pair(*parts))
    jax.tree_util.register_pytree_node(Pair, *flatten)
    kept, there = [], Pair(flambeau.ones(1), [])
    run = flambeau.compile(lambda x: kept.append(Pair(Pair(x * 2, there), [x * 3])) or there)
    for i in range(2):
        assert run(flambeau.full((1,), float(i))) is there
        assert (kept[i].first.first.item(), kept[i].second[0].item()) == (2.0 * i, 3.0 * i)
        assert kept[i].first.second is there


def test_gradients_flow_through_what_is_kept():
    weight, kept = flambeau.ones(2, requires_grad=True), []
    run = flambeau.compile(lambda x: kept.append({"loss": (weight * x).sum()}))
    for i in range(3):
        run(flambeau.full((2,), float(i)))
    assert type(kept[0]["loss"].grad_fn).__name__ == "CompiledFunctionBackward"
    sum(each["loss"] for each in kept).backward()
    assert weight.grad.tolist() == [3.0, 3.0]


def test_a_leaf_that_is_made_inside_and_kept_gets_its_gradient():
    kept = []

    @flambeau.compile
    def run(x):
        leaf = (x * 2).detach().requires_grad_()
        kept.append(leaf)
        return leaf * 3

    for _ in range(2):
        run(flambeau.ones(2)).sum().backward()
        assert kept[-1].is_leaf
        assert kept[-1].grad.tolist() == [3.0, 3.0]


def test_numbers_are_kept_at_every_call():
    kept, rate = [], [0.5]
    run = flambeau.compile(lambda x: kept.append((x * 2, rate[0])))
    run(flambeau.ones(1))
    rate[0] = 0.25
    run(flambeau.ones(1))
    assert [number for _, number in kept] == [0.5, 0.25]


class Output:
    def __init__(self, loss):
        self.loss = loss


@pytest.mark.parametrize("make", [Output, lambda y: {y}])
def test_an_object_that_holds_a_tensor_is_refused(make):
    kept = ["before"]
    run = flambeau.compile(lambda x: kept.append([make(x * 2)]), fullgraph=True)
    with pytest.raises(CompileError, match=r"leaves an object of class \w+ in kept"):
        run(flambeau.ones(1))
    assert kept == ["before"]


@pytest.mark.parametrize("error", ["inside", "of a value", "later"])
def test_an_error_leaves_containers_as_they_were(error):
    net, inner = layers(), [1]
    net.kept, kept = {"inner": inner}, []
    net[1].register_forward_hook(lambda module, args, output: kept.append(output))

    def run(x):
        net.kept["y"] = net(x)
        net.kept["inner"].append(x)
        if error == "inside":
            raise KeyError("mine")
        return x if error == "later" or x.sum() > 0 else -x

    compiled, x = flambeau.compile(run, fullgraph=True), flambeau.ones(1, 3)
    if error == "later":
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Program, "run_on", lambda *args: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                compiled(x)
    else:
        with pytest.raises(KeyError if error == "inside" else CompileError):
            compiled(x)
    assert (net.kept, kept, inner) == ({"inner": inner}, [], [1])
    assert net.kept["inner"] is inner
    assert type(kept) is list


@pytest.mark.parametrize("scene", OF_GRADIENTS)
def test_what_hooks_of_gradients_keep_needs_backward_inside(scene):
    net, kept = scene()
    y = flambeau.compile(lambda x: net(x), fullgraph=True)(flambeau.ones(2, 3))
    with pytest.raises(CompileError, match=r"changes .*kept.* while .*compile the whole step"):
        y.sum().backward()
    assert not kept


def test_a_change_of_an_argument_reaches_the_caller_or_is_refused():
    def run(x, batch):
        batch["count"] += 1
        return x * batch["count"]

    batch = {"count": 0}
    check_refused(run, "among its arguments", flambeau.ones(1), batch)
    assert batch == {"count": 2}


class Keeping(flambeau.nn.Module):
    def __init__(self):
        super().__init__()
        self.state = None
        self.kept = []

    def forward(self, x):
        return x * 2 if self.state is None else x * self.state


@pytest.mark.parametrize("wrap", [lambda function: function, flambeau.compile])
def test_attributes_of_a_module_that_are_set_before_it_is_called(wrap):
    module = Keeping()

    @wrap
    def function(x):
        module.state = x.sum()
        module.kept = [x, module.state]
        module.later = {"x": x * 3}
        return module(x)

    for factor in (1, 2):
        assert function(flambeau.ones(2) * factor).tolist() == [2 * factor**2] * 2
        assert module.state.item() == 2 * factor
        assert [each.sum().item() for each in module.kept] == [2 * factor] * 2
        assert module.later["x"].tolist() == [3 * factor] * 2
