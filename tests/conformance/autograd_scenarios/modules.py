"""`func.functional_call` and `func.stack_module_state`: modules as functions."""

from tests.conformance.scenario import Table

scenario = Table()


def vector(lib):
    return lib.tensor([1.0, 2.0, 3.0])


def network(lib):
    """A module of two layers with the same numbers in both libraries."""
    net = lib.nn.Sequential(lib.nn.Linear(3, 2), lib.nn.ReLU(), lib.nn.Linear(2, 2))
    with lib.no_grad():
        for parameter in net.parameters():
            parameter.fill_(0.5)
    return net


def constants(lib, net, value):
    return {name: lib.full_like(each, value) for name, each in net.named_parameters()}


def replacing(name, values, *facts, **options):
    """A scenario that calls a network with other values."""

    def run(lib, kit):
        net = network(lib)
        before = list(net.parameters())
        try:
            found = lib.func.functional_call(net, values(lib, net), (vector(lib),), **options)
        finally:
            assert all(a is b for a, b in zip(before, net.parameters(), strict=True))
        return found.detach(), found.requires_grad

    run.__name__ = f"functional_call_with_{name}"
    scenario(*facts)(run) if facts else scenario(run)


replacing("all_values", lambda lib, net: constants(lib, net, 2.0))
replacing("some_values", lambda lib, net: {"0.weight": lib.zeros(2, 3)})
replacing("no_values", lambda lib, net: {})
replacing("an_unknown_name", lambda lib, net: {"unknown": lib.zeros(1)})
replacing("an_unknown_name_in_a_layer", lambda lib, net: {"0.unknown": lib.zeros(1)})
replacing("an_unknown_layer", lambda lib, net: {"7.weight": lib.zeros(1)}, "7")
replacing("a_number", lambda lib, net: {"0.weight": 3})
replacing("no_dictionary", lambda lib, net: 3)
replacing(
    "two_dictionaries", lambda lib, net: ({"0.weight": lib.zeros(2, 3)}, {"2.bias": lib.ones(2)})
)
replacing(
    "a_name_twice",
    lambda lib, net: (constants(lib, net, 1.0), constants(lib, net, 2.0)),
    "0.weight",
)
replacing("all_values_strictly", lambda lib, net: constants(lib, net, 2.0), strict=True)
replacing(
    "some_values_strictly", lambda lib, net: {"0.weight": lib.zeros(2, 3)}, "0.bias", strict=True
)
replacing(
    "an_unknown_name_strictly",
    lambda lib, net: {**constants(lib, net, 1.0), "unknown": lib.zeros(1)},
    "unknown",
    strict=True,
)


@scenario
def functional_call_with_one_argument_and_keywords(lib, kit):
    values = {"weight": lib.tensor([5.0, 7.0])}
    call = lib.func.functional_call
    return call(kit.Scale(), values, lib.ones(2)), call(
        kit.Scale(), values, kwargs={"input": lib.ones(2)}
    )


def tied(lib):
    """A module with one parameter under two names, and a buffer that it writes to."""

    class Tied(lib.nn.Module):
        def __init__(self):
            super().__init__()
            self.a = lib.nn.Parameter(lib.ones(2))
            self.b = self.a
            self.register_buffer("calls", lib.zeros(2))

        def forward(self, x):
            self.calls.add_(1)
            return self.a * x + self.b + self.calls

    return Tied()


for options in ({}, {"tie_weights": False}, {"strict": True}):
    for label, values in {
        "one_name": lambda lib: {"a": lib.zeros(2)},
        "one_name_and_the_buffer": lambda lib: {"a": lib.zeros(2), "calls": lib.zeros(2)},
        "different_values": lambda lib: {"a": lib.zeros(2), "b": lib.ones(2)},
        "one_value_for_both": lambda lib: dict.fromkeys("ab", lib.zeros(2)),
    }.items():

        def tying(lib, kit, values=values, options=options):
            module = tied(lib)
            given = values(lib)
            found = lib.func.functional_call(module, given, (lib.ones(2),), **options)
            return found.detach(), module.calls, given, module.a is module.b

        tying.__name__ = f"tied_weights_with_{label}_{'_'.join(options) or 'by_default'}"
        scenario(tying)


@scenario
def a_buffer_that_forward_assigns(lib, kit):
    class Counting(lib.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("total", lib.ones(2))

        def forward(self, x):
            self.total = self.total + x
            return self.total

    module = Counting()
    replaced = lib.func.functional_call(module, {"total": lib.zeros(2)}, lib.ones(2))
    after_replaced = module.total
    own = lib.func.functional_call(module, {}, lib.ones(2))
    return replaced, after_replaced, own, module.total


@scenario
def a_module_that_fails_is_as_before(lib, kit):
    failing = kit.Failing()
    failing.weight = lib.nn.Parameter(lib.ones(2))
    own = failing.weight
    try:
        lib.func.functional_call(failing, {"weight": lib.zeros(2)}, lib.ones(2))
    except ValueError:
        return failing.weight is own


@scenario
def gradients_flow_to_the_values(lib, kit):
    values = {"weight": lib.tensor([5.0, 7.0], requires_grad=True)}
    lib.func.functional_call(kit.Scale(), values, lib.tensor([2.0, 3.0])).sum().backward()
    return values["weight"].grad


@scenario
def per_example_gradients(lib, kit):
    net = network(lib)
    values = {name: each.detach() for name, each in net.named_parameters()}

    def loss(values, x):
        return lib.func.functional_call(net, values, (x,)).sum()

    inputs = lib.tensor([[1.0, 2.0, 3.0], [-1.0, 0.0, 2.0]])
    return lib.func.vmap(lib.func.grad(loss), in_dims=(None, 0))(values, inputs)


@scenario
def stacked_models(lib, kit):
    models = [kit.Scale(1.0, 2.0), kit.Scale(3.0, 4.0)]
    values, buffers = lib.func.stack_module_state(models)

    def call(values, buffers, x):
        return lib.func.functional_call(models[0], (values, buffers), (x,))

    found = lib.func.vmap(call, in_dims=(0, 0, None))(values, buffers, lib.ones(2))
    found.sum().backward()
    weight = values["weight"]
    return found.detach(), weight.is_leaf, weight.requires_grad, weight.grad


@scenario
def stacked_buffers(lib, kit):
    values, buffers = lib.func.stack_module_state([kit.Net(), kit.Net()])
    return values, buffers


@scenario
def no_models_stacked(lib, kit):
    lib.func.stack_module_state([])


@scenario
def models_of_different_classes_stacked(lib, kit):
    lib.func.stack_module_state([kit.Scale(), kit.Shift()])


@scenario
def models_of_different_shapes_stacked(lib, kit):
    lib.func.stack_module_state([kit.Scale(1.0), kit.Scale(1.0, 2.0)])


@scenario
def models_in_different_modes_stacked(lib, kit):
    lib.func.stack_module_state([kit.Scale(), kit.Scale().eval()])


@scenario("weight")
def models_of_which_some_are_frozen_stacked(lib, kit):
    lib.func.stack_module_state([kit.Scale(), kit.Scale().requires_grad_(False)])


@scenario
def batch_normalization_without_running_statistics(lib, kit):
    net = lib.nn.Sequential(lib.nn.BatchNorm1d(2), lib.nn.Sequential(lib.nn.BatchNorm2d(3)))
    same = lib.func.replace_all_batch_norm_modules_(net)
    batch = lib.tensor([[[0.0, 1.0], [2.0, 3.0]], [[1.0, 5.0], [3.0, -1.0]]])
    return same is net, net.state_dict(), lib.func.vmap(net[0])(batch)
