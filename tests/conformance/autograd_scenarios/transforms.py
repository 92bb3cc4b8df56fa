"""`func`: transformations of functions of tensors, and modules as functions."""

from collections import OrderedDict, namedtuple

from tests.conformance.scenario import Table

scenario = Table()
Point = namedtuple("Point", "x y")


def vector(lib):
    return lib.tensor([1.0, 2.0, 3.0])


def matrix(lib):
    return lib.tensor([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]])


def calling(name, call, *facts):
    """A scenario that calls functions of `func` on a vector."""

    def run(lib, kit):
        return call(lib, lib.func, vector(lib))

    run.__name__ = name
    scenario(*facts)(run) if facts else scenario(run)


def batching(name, call):
    """A scenario that calls functions of `func` on a matrix."""

    def run(lib, kit):
        return call(lib, lib.func, matrix(lib))

    run.__name__ = name
    scenario(run)


def square(x):
    return (x * x).sum()


# grad

calling("grad", lambda lib, f, x: f.grad(square)(x))
calling("grad_by_two", lambda lib, f, x: f.grad(lambda a, b: (a * a * b).sum(), (0, 1))(x, x))
calling("grad_by_the_last", lambda lib, f, x: f.grad(lambda a, b: (a * a * b).sum(), -1)(x, x))
calling("grad_by_a_tuple_of_one", lambda lib, f, x: f.grad(square, (0,))(x))
calling("grad_by_too_high_a_number", lambda lib, f, x: f.grad(square, argnums=3)(x), "3")
calling("grad_with_aux", lambda lib, f, x: f.grad(lambda x: (square(x), x * 2), has_aux=True)(x))
calling(
    "grad_with_nested_aux",
    lambda lib, f, x: f.grad(lambda x: (square(x), {"a": (x, x * 2)}), has_aux=True)(x),
)
calling("grad_without_promised_aux", lambda lib, f, x: f.grad(square, has_aux=True)(x))
calling("grad_of_a_vector", lambda lib, f, x: f.grad(lambda x: x * x)(x))
calling("grad_of_a_number", lambda lib, f, x: f.grad(lambda x: 3.0)(x))
calling("grad_of_a_tuple", lambda lib, f, x: f.grad(lambda x: (x.sum(),))(x))
calling("grad_by_a_number", lambda lib, f, x: f.grad(square)(3.0))
calling("grad_by_integers", lambda lib, f, x: f.grad(lambda x: x.sum())(x.long()))
calling("grad_with_a_number", lambda lib, f, x: f.grad(lambda x, k: (x * k).sum())(x, 3))
calling("grad_with_keywords", lambda lib, f, x: f.grad(lambda x, *, k: (x * k).sum())(x, k=2.0))
calling("grad_of_a_constant", lambda lib, f, x: f.grad(lambda x: lib.ones(()))(x))
calling(
    "grad_by_a_dictionary_in_its_own_order",
    lambda lib, f, x: list(
        f.grad(lambda d: (d["z"] * d["a"] * d["a"]).sum())({"z": x, "a": x}).items()
    ),
)
calling(
    "grad_by_nested_containers",
    lambda lib, f, x: f.grad(lambda p: (p[0].x * p[0].y * p[1]["w"][0]).sum())(
        (Point(x, x), OrderedDict(w=[x]))
    ),
)
calling("grad_and_value", lambda lib, f, x: f.grad_and_value(square)(x))
calling(
    "grad_and_value_with_aux",
    lambda lib, f, x: f.grad_and_value(lambda x: (square(x), x), has_aux=True)(x),
)
calling("grad_of_grad", lambda lib, f, x: f.grad(f.grad(lambda t: t**3))(x[1]))
calling("grad_respects_detach", lambda lib, f, x: f.grad(lambda x: (x * x.detach()).sum())(x))
calling("grad_respects_data", lambda lib, f, x: f.grad(lambda x: (x * x.data).sum())(x))
calling(
    "grad_with_a_decision",
    lambda lib, f, x: f.grad(lambda x: (x * 2 if x.sum() > 0 else -x).sum())(x),
)


@scenario
def grad_respects_no_grad_inside(lib, kit):
    def function(x):
        with lib.no_grad():
            y = x * x
        return (x * y).sum()

    return lib.func.grad(function)(vector(lib))


@scenario
def grad_ignores_no_grad_outside(lib, kit):
    with lib.no_grad():
        found = lib.func.grad(square)(vector(lib))
        return found, found.requires_grad, lib.is_grad_enabled()


@scenario
def grad_with_the_tape_inside(lib, kit):
    def function(x):
        (first,) = lib.autograd.grad((x**3).sum(), x, create_graph=True)
        return first.sum()

    return lib.func.grad(function)(vector(lib))


@scenario
def grad_of_a_tensor_from_outside_flows_on(lib, kit):
    w = lib.tensor([1.0, 2.0, 3.0], requires_grad=True)
    found = lib.func.grad(lambda x: ((x * w) * (x * w)).sum())(vector(lib))
    found.sum().backward()
    return found.detach(), w.grad


@scenario
def grad_by_an_argument_that_requires_grad_flows_on(lib, kit):
    x = vector(lib).requires_grad_()
    found = lib.func.grad(lambda x: (x**3).sum())(x)
    found.sum().backward()
    return found.detach(), x.grad, found.requires_grad


@scenario
def grad_of_what_is_written_in_place_inside(lib, kit):
    def function(x):
        y = lib.zeros(3)
        y[0] = x[0] * 2
        y.mul_(3)
        return y.sum()

    return lib.func.grad(function)(vector(lib))


@scenario
def grad_of_a_function_that_writes_to_its_argument(lib, kit):
    lib.func.grad(lambda x: x.add_(1).sum())(vector(lib))


@scenario
def grad_of_a_function_that_writes_outside(lib, kit):
    outside = lib.zeros(3)
    try:
        lib.func.grad(lambda x: outside.add_(x).sum())(vector(lib))
    except RuntimeError:
        return outside, outside.requires_grad


# vjp


@scenario
def vjp(lib, kit):
    output, pull = lib.func.vjp(lambda x: x * x, vector(lib))
    return output, pull(vector(lib)), pull(lib.ones(3))


@scenario
def vjp_of_several(lib, kit):
    x = vector(lib)
    output, pull = lib.func.vjp(lambda a, b: (a * b, a + b), x, x * 2)
    return output, pull((x, x)), pull((x, lib.zeros(3)))


@scenario
def vjp_of_dictionaries(lib, kit):
    x = vector(lib)
    output, pull = lib.func.vjp(lambda d: {"p": d["a"] * d["b"]}, {"a": x, "b": x * 2})
    return output, pull({"p": x})


@scenario
def vjp_with_aux(lib, kit):
    output, pull, aux = lib.func.vjp(lambda x: (x * x, x * 3), vector(lib), has_aux=True)
    return output, pull(lib.ones(3)), aux


@scenario
def vjp_with_cotangents_of_another_structure(lib, kit):
    _, pull = lib.func.vjp(lambda x: x * x, vector(lib))
    pull((lib.ones(3),))


@scenario
def vjp_with_cotangents_of_another_shape(lib, kit):
    _, pull = lib.func.vjp(lambda x: x * x, vector(lib))
    pull(lib.ones(2))


@scenario
def vjp_mapped_over_cotangents(lib, kit):
    _, pull = lib.func.vjp(lambda x: x * x, vector(lib))
    return lib.func.vmap(pull)(lib.eye(3))


calling("vjp_of_a_number", lambda lib, f, x: f.vjp(lambda x: 3, x))
calling("vjp_of_a_tensor_and_a_number", lambda lib, f, x: f.vjp(lambda x: (x, 3), x))
calling("vjp_by_a_number", lambda lib, f, x: f.vjp(lambda x: x, 3))

# jvp

calling("jvp", lambda lib, f, x: f.jvp(lambda x: x * x, (x,), (lib.ones(3),)))
calling("jvp_of_several", lambda lib, f, x: f.jvp(lambda a, b: (a * b, a), (x, x), (x, x * 2)))
calling("jvp_with_aux", lambda lib, f, x: f.jvp(lambda x: (x * x, x * 3), (x,), (x,), has_aux=True))
calling(
    "jvp_of_dictionaries", lambda lib, f, x: f.jvp(lambda d: d["a"] * 2, ({"a": x},), ({"a": x},))
)
calling("jvp_of_a_constant", lambda lib, f, x: f.jvp(lambda x: lib.ones(2), (x,), (x,)))
calling("jvp_of_no_tuple", lambda lib, f, x: f.jvp(lambda x: x * x, x, x))
calling(
    "jvp_of_another_shape", lambda lib, f, x: f.jvp(lambda x: x, (x,), (lib.ones(2),)), "[2]", "[3]"
)
calling("jvp_of_another_structure", lambda lib, f, x: f.jvp(lambda x: x, (x,), ()))
calling("jvp_stops_at_detach", lambda lib, f, x: f.jvp(lambda x: x * x.detach(), (x,), (x,)))
calling(
    "jvp_with_a_decision", lambda lib, f, x: f.jvp(lambda x: x if x.sum() > 0 else -x, (x,), (x,))
)
calling("linearize", lambda lib, f, x: f.linearize(lambda x: x * x, x)[1](x * 10))


@scenario
def jvp_ignores_no_grad_inside(lib, kit):
    def function(x):
        with lib.no_grad():
            y = x * x
        return x * y

    x = vector(lib)
    return lib.func.jvp(function, (x,), (x,))


@scenario
def jvp_of_what_is_written_in_place_inside(lib, kit):
    def function(x):
        y = lib.zeros(3)
        y[0] = x[0] * 2
        return y

    return lib.func.jvp(function, (vector(lib),), (lib.ones(3),))


@scenario
def jvp_with_a_tensor_from_outside_flows_on(lib, kit):
    w = lib.tensor([1.0, 2.0, 3.0], requires_grad=True)
    x = vector(lib)
    output, tangent = lib.func.jvp(lambda x: x * w * w, (x,), (x,))
    (output + tangent * 10).sum().backward()
    return output.requires_grad, tangent.requires_grad, w.grad


@scenario
def jvp_of_a_function_that_writes_outside(lib, kit):
    outside, x = lib.zeros(3), vector(lib)
    try:
        lib.func.jvp(lambda x: outside.add_(x), (x,), (x,))
    except RuntimeError:
        return outside


# Jacobians

for name in ("jacrev", "jacfwd"):

    def by(call, name=name):
        return lambda lib, f, x: call(lib, getattr(f, name), x)

    calling(name, by(lambda lib, jac, x: jac(lambda x: x * x)(x)))
    calling(f"{name}_by_two", by(lambda lib, jac, x: jac(lambda a, b: a * b, (0, 1))(x, x * 2)))
    calling(
        f"{name}_by_a_tuple_of_one", by(lambda lib, jac, x: jac(lambda a, b: a * b, (1,))(x, x))
    )
    calling(f"{name}_of_several", by(lambda lib, jac, x: jac(lambda x: (x * x, x.sum()))(x)))
    calling(
        f"{name}_with_aux", by(lambda lib, jac, x: jac(lambda x: (x * x, x * 3), has_aux=True)(x))
    )
    calling(
        f"{name}_of_dictionaries",
        by(lambda lib, jac, x: jac(lambda d: {"o": d["b"] * d["a"]})({"b": x, "a": x * 2})),
    )
    calling(f"{name}_of_a_constant", by(lambda lib, jac, x: jac(lambda x: lib.ones(2))(x)))
    calling(f"{name}_of_a_number", by(lambda lib, jac, x: jac(lambda x: 3)(x)))
    calling(f"{name}_by_too_high_a_number", by(lambda lib, jac, x: jac(lambda x: x, 2)(x)), "2")
    calling(
        f"{name}_of_a_matrix",
        by(lambda lib, jac, x: jac(lambda x: x[:, None] * x[None, :2])(x)),
    )
    calling(f"{name}_twice", by(lambda lib, jac, x: jac(jac(lambda x: x**3))(x)))
    calling(f"{name}_stops_at_detach", by(lambda lib, jac, x: jac(lambda x: x * x.detach())(x)))

calling("jacrev_in_chunks", lambda lib, f, x: f.jacrev(lambda x: x * x, chunk_size=2)(x))
calling("jacrev_in_chunks_of_none", lambda lib, f, x: f.jacrev(lambda x: x, chunk_size=0)(x))
calling("hessian", lambda lib, f, x: f.hessian(lambda x: (x**3).sum())(x))
calling("hessian_by_two", lambda lib, f, x: f.hessian(lambda a, b: (a**3 * b).sum(), (0, 1))(x, x))


@scenario
def a_mapped_jacobian_of_a_module_trains_it(lib, kit):
    layer = lib.nn.Linear(1, 1)
    with lib.no_grad():
        layer.weight.fill_(2.0)
        layer.bias.fill_(1.0)

    def function(t):
        y = layer(t)
        return y * y

    times = lib.tensor([[1.0], [2.0]])
    slopes = lib.func.vmap(lib.func.jacrev(function))(times)
    slopes.sum().backward()
    return slopes.detach(), layer.weight.grad, layer.bias.grad


# vmap

batching("vmap", lambda lib, f, m: f.vmap(lambda x: x.sum())(m))
batching("vmap_over_the_last", lambda lib, f, m: f.vmap(lambda x: x.sum(), in_dims=-1)(m))
batching(
    "vmap_with_one_that_is_the_same",
    lambda lib, f, m: f.vmap(lambda x, y: x.sum() + y, in_dims=(1, None))(m, lib.tensor(1.0)),
)
batching("vmap_with_the_batch_last", lambda lib, f, m: f.vmap(lambda x: x * 2, out_dims=1)(m))
batching(
    "vmap_with_several_outputs",
    lambda lib, f, m: f.vmap(lambda x: (x, x.sum()), out_dims=(1, 0))(m),
)
batching("vmap_of_dictionaries", lambda lib, f, m: f.vmap(lambda d: {"s": d["a"].sum()})({"a": m}))
batching(
    "vmap_with_dims_in_dictionaries",
    lambda lib, f, m: f.vmap(lambda d: d["a"].sum(), in_dims=({"a": 1},))({"a": m}),
)
batching(
    "vmap_with_dims_in_lists",
    lambda lib, f, m: f.vmap(lambda s: s[0] + s[1], in_dims=([0, 1],))([m, m.t()]),
)
batching(
    "vmap_with_dims_of_another_type",
    lambda lib, f, m: f.vmap(lambda s: s[0] + s[1], in_dims=((0, 1),))([m, m.t()]),
)
batching("vmap_with_a_number", lambda lib, f, m: f.vmap(lambda x, k: x * k, (0, None))(m, 3))
batching("vmap_over_a_number", lambda lib, f, m: f.vmap(lambda x, k: x * k)(m, 3))
batching("vmap_over_different_sizes", lambda lib, f, m: f.vmap(lambda x, y: x)(m, lib.ones(4)))
batching("vmap_over_nothing", lambda lib, f, m: f.vmap(lambda x: x, in_dims=None)(m))
batching("vmap_over_all_none", lambda lib, f, m: f.vmap(lambda x: x, in_dims=(None,))(m))
batching("vmap_over_too_high_a_dimension", lambda lib, f, m: f.vmap(lambda x: x, in_dims=2)(m))
batching("vmap_over_a_name", lambda lib, f, m: f.vmap(lambda x: x, in_dims="a")(m))
batching("vmap_over_a_list", lambda lib, f, m: f.vmap(lambda x: x, in_dims=[0])(m))
batching("vmap_over_too_many", lambda lib, f, m: f.vmap(lambda x: x, in_dims=(0, 0))(m))
batching("vmap_of_no_arguments", lambda lib, f, m: f.vmap(lambda: 1)())
batching("vmap_over_a_scalar", lambda lib, f, m: f.vmap(lambda x: x)(lib.tensor(1.0)))
batching("vmap_that_returns_a_number", lambda lib, f, m: f.vmap(lambda x: 3)(m))
batching("vmap_that_returns_nothing", lambda lib, f, m: f.vmap(lambda x: None)(m))
batching("vmap_that_returns_a_number_too", lambda lib, f, m: f.vmap(lambda x: (x, 3))(m))
batching("vmap_that_returns_a_constant", lambda lib, f, m: f.vmap(lambda x: lib.ones(2))(m))
batching(
    "vmap_that_returns_a_constant_once",
    lambda lib, f, m: f.vmap(lambda x: lib.ones(2), out_dims=None)(m),
)
batching(
    "vmap_that_returns_the_example_once",
    lambda lib, f, m: f.vmap(lambda x: x, out_dims=None)(m),
)
batching("vmap_into_too_high_a_dimension", lambda lib, f, m: f.vmap(lambda x: x, out_dims=5)(m))
batching(
    "vmap_into_dims_of_another_structure",
    lambda lib, f, m: f.vmap(lambda x: (x, x), out_dims=(0,))(m),
)
batching("vmap_that_asks_for_a_value", lambda lib, f, m: f.vmap(lambda x: x.item())(m[:, 0]))
batching("vmap_that_decides", lambda lib, f, m: f.vmap(lambda x: x if x > 0 else -x)(m[:, 0]))
batching("vmap_of_vmap", lambda lib, f, m: f.vmap(f.vmap(lambda x: x * 2))(m))
batching(
    "vmap_of_vmap_over_different_dims",
    lambda lib, f, m: f.vmap(f.vmap(lambda x, y: x * y, (0, None)), (None, 0))(m[:, 0], m[:, 1]),
)
batching("vmap_in_chunks", lambda lib, f, m: f.vmap(lambda x: x * 2, chunk_size=2)(m))
batching(
    "vmap_in_chunks_over_different_dims",
    lambda lib, f, m: f.vmap(lambda x, y: x * y, (0, 1), 1, chunk_size=2)(m, m.t()),
)
batching("vmap_in_chunks_of_none", lambda lib, f, m: f.vmap(lambda x: x, chunk_size=0)(m))
batching("vmap_that_draws", lambda lib, f, m: f.vmap(lambda x: x + lib.rand(2))(m))
batching(
    "vmap_with_an_unknown_randomness", lambda lib, f, m: f.vmap(lambda x: x, randomness="z")(m)
)
batching(
    "vmap_that_draws_the_same",
    lambda lib, f, m: len(
        {tuple(row) for row in f.vmap(lambda x: lib.rand(2), randomness="same")(m).tolist()}
    ),
)
batching(
    "vmap_that_draws_differently",
    lambda lib, f, m: len(
        {tuple(row) for row in f.vmap(lambda x: lib.rand(2), randomness="different")(m).tolist()}
    ),
)
batching(
    "vmap_of_grad",
    lambda lib, f, m: f.vmap(f.grad(lambda w, x: (w * x * x).sum()), (None, 0))(m[0], m),
)
batching("grad_of_vmap", lambda lib, f, m: f.grad(lambda x: f.vmap(lambda t: t * t)(x).sum())(m))


@scenario
def vmap_that_writes_to_its_argument(lib, kit):
    m = matrix(lib)
    found = lib.func.vmap(lambda x: x.add_(1))(m)
    return found, m


@scenario
def vmap_that_writes_outside(lib, kit):
    outside = lib.zeros(2)
    try:
        lib.func.vmap(lambda x: outside.add_(x))(matrix(lib))
    except RuntimeError:
        return outside


@scenario
def vmap_with_a_tensor_from_outside_flows_on(lib, kit):
    w = lib.tensor([1.0, 2.0], requires_grad=True)
    found = lib.func.vmap(lambda x: (x * w * w).sum())(matrix(lib))
    found.sum().backward()
    return found.detach(), found.requires_grad, w.grad


@scenario
def vmap_of_an_argument_that_requires_grad_flows_on(lib, kit):
    m = matrix(lib).requires_grad_()
    lib.func.vmap(lambda x: (x * x).sum())(m).sum().backward()
    return m.grad


@scenario
def vmap_under_no_grad(lib, kit):
    w = lib.tensor([1.0, 2.0], requires_grad=True)
    with lib.no_grad():
        return lib.func.vmap(lambda x: x * w)(matrix(lib)).requires_grad


# Modules


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
