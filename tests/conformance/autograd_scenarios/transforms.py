"""`func`: transformations of functions of tensors, and modules as functions."""

from collections import OrderedDict, namedtuple

from tests.conformance.scenario import Table

scenario = Table()
Point = namedtuple("Point", "x y")


def vector(lib):
    return lib.tensor([1.0, 2.0, 3.0])


def calling(name, call, *facts):
    """A scenario that calls functions of `func` on a vector."""

    def run(lib, kit):
        return call(lib, lib.func, vector(lib))

    run.__name__ = name
    scenario(*facts)(run) if facts else scenario(run)


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
for label, function in {
    "square": lambda lib: lambda x: x * x,
    "zeros_times_it": lambda lib: lambda x: x * 0,
    "constant": lambda lib: lambda x: lib.ones(2),
    "one_constant": lambda lib: lambda x: (x * x, lib.ones(2)),
    "detached": lambda lib: lambda x: x.detach(),
    "integers": lambda lib: lambda x: x.long(),
    "dictionary": lambda lib: lambda x: {"a": x, "b": [x * 2]},
}.items():
    calling(
        f"jvp_of_{label}_strictly",
        lambda lib, f, x, function=function: f.jvp(function(lib), (x,), (x,), strict=True),
    )
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


@scenario
def inside_inference_mode(lib, kit):
    x, f = vector(lib), lib.func
    with lib.inference_mode():
        found = f.grad(square)(x), f.jacrev(square)(x), f.hessian(square)(x)
        return found, f.vmap(f.grad(square))(lib.stack([x, x])), f.jvp(square, (x,), (x,))


for argnums in ("a", 1.0, (0, None), [0], ()):
    for name in ("grad", "jacrev", "jacfwd"):
        calling(
            f"{name}_by_{argnums!r}",
            lambda lib, f, x, name=name, argnums=argnums: getattr(f, name)(square, argnums)(x),
        )
for name in ("jacrev", "jacfwd", "hessian"):
    calling(
        f"{name}_by_complex_numbers",
        lambda lib, f, x, name=name: getattr(f, name)(lambda z: z.real.sum())(x * 1j),
    )
    calling(
        f"{name}_of_complex_numbers",
        lambda lib, f, x, name=name: getattr(f, name)(lambda x: x * 1j)(x),
    )
