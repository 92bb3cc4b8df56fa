"""Lazy layers from construction to their first call, and uninitialized tensors."""

import copy
import pickle

from tests.conformance.scenario import Table

scenario = Table()

LAYERS = [
    "LazyLinear",
    *(f"Lazy{kind}{n}d" for kind in ("Conv", "ConvTranspose") for n in (1, 2, 3)),
    *(f"Lazy{kind}{n}d" for kind in ("BatchNorm", "InstanceNorm") for n in (1, 2, 3)),
]


def make(lib, name, **options):
    """A lazy layer, and an input for it."""
    layer = getattr(lib.nn, name)
    x = lib.ones(2, 3, *[4] * (int(name[-2]) if name.endswith("d") else 0))
    if name == "LazyLinear":
        return layer(4, **options), x
    if "Conv" in name:
        return layer(4, 2, **options), x
    if "Instance" in name:
        return layer(affine=True, track_running_stats=True, **options), x
    return layer(**options), x


def described(lib, layer):
    """What can be told of a layer and its members without their values."""
    members = []
    for name, tensor in [*layer._parameters.items(), *layer._buffers.items()]:
        lazy = lib.nn.parameter.is_lazy(tensor)
        members.append(
            (
                name,
                type(tensor).__name__,
                lazy,
                None if lazy else tuple(tensor.shape),
                str(tensor.dtype).rpartition(".")[2],
                str(tensor.device),
                tensor.requires_grad,
            )
        )
    hooks = len(layer._forward_pre_hooks), len(layer._load_state_dict_pre_hooks)
    return type(layer).__name__, members, hooks, sorted(layer.__dict__), repr(layer)


def state_of(lib, layer):
    return [
        (key, type(value).__name__, lib.nn.parameter.is_lazy(value))
        for key, value in layer.state_dict().items()
    ]


def first_call(lib, name):
    layer, x = make(lib, name)
    before = described(lib, layer), state_of(lib, layer), layer.has_uninitialized_params()
    layer(x)
    return before, described(lib, layer), state_of(lib, layer)


def with_a_dtype(lib, name):
    layer, x = make(lib, name, dtype=lib.float64)
    before = described(lib, layer)
    layer(x.double())
    return before, described(lib, layer)


def cast_before_the_first_call(lib, name):
    layer, x = make(lib, name)
    before = described(lib, layer.double())
    layer(x.double())
    return before, described(lib, layer)


def pickled_before_the_first_call(lib, name):
    layer, x = make(lib, name)
    copied = pickle.loads(pickle.dumps(layer))
    before = described(lib, copied)
    copied(x)
    return before, described(lib, copied), layer.has_uninitialized_params()


def loaded_from_an_initialized_one(lib, name):
    source, x = make(lib, name)
    source(x)
    target, _ = make(lib, name)
    return repr(target.load_state_dict(source.state_dict())), described(lib, target)


def loaded_from_an_uninitialized_one(lib, name):
    target, _ = make(lib, name)
    source, _ = make(lib, name)
    return repr(target.load_state_dict(source.state_dict())), described(lib, target)


def uninitialized_into_initialized(lib, name):
    target, x = make(lib, name)
    target(x)
    target.load_state_dict(make(lib, name)[0].state_dict())


def copied_after_the_first_call(lib, name):
    layer, x = make(lib, name)
    layer(x)
    found = [copy.deepcopy(layer), pickle.loads(pickle.dumps(layer)), copy.copy(layer)]
    return [(each(x).shape, described(lib, each)) for each in found]


def without_gradients(lib, name):
    layer, x = make(lib, name)
    layer.requires_grad_(False)
    with lib.no_grad():
        layer(x)
    return described(lib, layer)


def in_a_chain_with_hooks(lib, name):
    seen = []
    layer, x = make(lib, name)

    def note(module, *given):
        seen.append((type(module).__name__, len(given)))

    layer.register_forward_pre_hook(note)
    layer.register_forward_pre_hook(note, prepend=True)
    layer.register_forward_hook(note)
    layer.register_full_backward_hook(note)
    chain = lib.nn.Sequential(lib.nn.Identity(), layer)
    for _ in range(2):
        chain(x.clone().requires_grad_()).sum().backward()
    return seen, described(lib, layer)


def built_on_meta(lib, name):
    layer, x = make(lib, name, device="meta")
    output = layer(x.to("meta"))
    return output.shape, described(lib, layer)


for each in (
    copied_after_the_first_call,
    without_gradients,
    in_a_chain_with_hooks,
    built_on_meta,
    first_call,
    with_a_dtype,
    cast_before_the_first_call,
    pickled_before_the_first_call,
    loaded_from_an_initialized_one,
    loaded_from_an_uninitialized_one,
    uninitialized_into_initialized,
):
    for name in LAYERS:

        def run(lib, kit, each=each, name=name):
            return each(lib, name)

        run.__name__ = f"{name}_{each.__name__}"
        scenario(run)


def own(lib, initialize):
    """A lazy module of the user's own with one parameter."""

    class Own(lib.nn.modules.lazy.LazyModuleMixin, lib.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = lib.nn.UninitializedParameter()
            self.other = lib.nn.UninitializedParameter()

        if initialize is not None:

            def initialize_parameters(self, x):
                initialize(self, x)

        def forward(self, x):
            return x * self.weight

    return Own()


@scenario
def a_module_of_ones_own(lib, kit):
    def initialize(module, x):
        for parameter in (module.weight, module.other):
            parameter.materialize((x.shape[-1],))
            parameter.data.fill_(2.0)

    module = own(lib, initialize)
    before = described(lib, module)
    return before, module(lib.ones(2, 3)).detach(), described(lib, module)


@scenario
def a_module_that_cannot_initialize(lib, kit):
    own(lib, None)(lib.ones(2))


@scenario
def a_module_that_initializes_only_a_part(lib, kit):
    own(lib, lambda module, x: module.weight.materialize((2,)))(lib.ones(2))


@scenario
def replicating_for_data_parallel(lib, kit):
    lib.nn.LazyLinear(3)._replicate_for_data_parallel()


@scenario
def sharing_memory(lib, kit):
    lib.nn.LazyLinear(3).share_memory()


@scenario
def an_optimizer_made_before_the_first_call(lib, kit):
    model = lib.nn.Sequential(lib.nn.LazyLinear(3), lib.nn.ReLU(), lib.nn.LazyLinear(2))
    optimizer = lib.optim.SGD(model.parameters(), lr=0.1)
    before = [id(each) for each in model.parameters()]
    model(lib.ones(2, 4)).sum().backward()
    optimizer.step()
    same = before == [id(each) for each in optimizer.param_groups[0]["params"]]
    return same, [tuple(each.shape) for each in model.parameters()], [type(each) for each in model]


@scenario
def frozen_before_the_first_call(lib, kit):
    layer = lib.nn.LazyLinear(3).requires_grad_(False)
    layer(lib.ones(1, 2))
    return layer.weight.requires_grad, layer.bias.requires_grad


@scenario
def a_state_without_the_keys(lib, kit):
    lib.nn.LazyLinear(3).load_state_dict({})


@scenario
def a_state_of_another_size(lib, kit):
    layer = lib.nn.LazyLinear(3)
    layer.load_state_dict({"weight": lib.zeros(3, 2), "bias": lib.zeros(4)})
    return described(lib, layer)


@scenario
def initializing_what_has_no_shape(lib, kit):
    lib.nn.init.zeros_(lib.nn.LazyLinear(3).weight)


@scenario
def materializing_twice(lib, kit):
    parameter = lib.nn.UninitializedParameter()
    parameter.materialize((2,))
    parameter.materialize((3,))
