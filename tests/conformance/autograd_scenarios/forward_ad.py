"""Dual tensors: `autograd.forward_ad`."""

import copy

from tests.conformance.scenario import Table

scenario = Table()


def point(lib):
    """A vector and a direction."""
    return lib.tensor([1.0, 2.0, 3.0]), lib.tensor([1.0, 0.0, 2.0])


def tangents(lib, *tensors):
    return [lib.autograd.forward_ad.unpack_dual(each).tangent for each in tensors]


def with_dual(*facts):
    """A scenario inside a dual level: ``(lib, forward_ad, dual, x, v)``."""

    def add(run):
        def scenario_of(lib, kit):
            f = lib.autograd.forward_ad
            x, v = point(lib)
            with f.dual_level():
                return run(lib, f, f.make_dual(x, v), x, v)

        scenario_of.__name__ = run.__name__
        scenario(*facts)(scenario_of) if facts else scenario(scenario_of)
        return run

    return add


OPERATORS = {
    "product": lambda lib, d: d * d,
    "with_numbers": lambda lib, d: (2 - d / 3) ** 3,
    "matmul": lambda lib, d: lib.outer(d, d) @ d,
    "pieces": lambda lib, d: lib.cat([d[1:], d.flip(0), d[None, :2].t().reshape(-1)]),
    "reductions": lambda lib, d: lib.stack([d.sum(), d.mean(), d.std(), d.norm(), d.logsumexp(0)]),
    "maximum": lambda lib, d: d.max(0).values * d.cummax(0)[0],
    "gather": lambda lib, d: d[lib.tensor([2, 0])] + d.gather(0, lib.tensor([1, 1])),
    "where": lambda lib, d: lib.where(d > 1, d.exp(), d.sin()),
    "softmax": lambda lib, d: lib.nn.functional.log_softmax(d, 0),
    "linear": lambda lib, d: lib.nn.functional.linear(d[None], lib.ones(2, 3), d[:2]),
    "convolution": lambda lib, d: lib.nn.functional.conv1d(d[None, None], d[None, None, 1:]),
    "complex": lambda lib, d: lib.view_as_real(lib.complex(d, d * d) ** 2),
    "inverse": lambda lib, d: lib.linalg.inv(lib.diag(d) + 1),
    "sort": lambda lib, d: d.sort(descending=True)[0],
    "steps": lambda lib, d: d.floor() + d.round() + d.sign(),
    "dtype": lambda lib, d: d.double() * 2,
    "expanded": lambda lib, d: d.expand(2, 3) * d[:2, None],
    "unbound": lambda lib, d: sum(d.unbind() + d.split(1)),
    "no_grad": lambda lib, d: lib.no_grad()(lambda: d * 2)(),
}

for name, operator in OPERATORS.items():

    @with_dual()
    def an_operator(lib, f, d, x, v, operator=operator):
        return tuple(f.unpack_dual(operator(lib, d)))

    scenario[-1] = scenario[-1]._replace(name=f"operator_{name}")


@with_dual()
def what_has_no_tangent(lib, f, d, x, v):
    return tangents(
        lib, x, d > 1, d.long(), d.argmax(), lib.zeros_like(d), d.detach(), d.data,
        copy.deepcopy(d), lib.nn.Parameter(d),
    )  # fmt: skip


@with_dual()
def a_dual_tensor_is_a_view(lib, f, d, x, v):
    primal, tangent = f.unpack_dual(d)
    return d._is_view(), d._base is x, type(d) is lib.Tensor, tangent is v, primal._is_view()


@with_dual()
def the_parts_of_a_result_have_no_tangent(lib, f, d, x, v):
    y = d * 2
    primal = f.unpack_dual(y).primal
    return tangents(lib, primal, primal[1:], primal * 3, y[1:])


@with_dual()
def writing_in_place(lib, f, d, x, v):
    d.mul_(d.clone())
    return x, v, *tangents(lib, d, x)


@with_dual()
def writing_numbers_in_place(lib, f, d, x, v):
    filled, zeroed, drawn, part = d * 1, d * 1, d * 1, d * 1
    filled.fill_(2.0)
    zeroed.zero_()
    drawn.normal_()
    part[1:] = 5.0
    return tangents(lib, filled, zeroed, drawn, part)


@with_dual()
def writing_into_parts(lib, f, d, x, v):
    base = lib.zeros(2, 3)
    early = base[1]
    base[0] = d
    late = base[0]
    early.add_(d * 3)
    late[1:].mul_(d[0])
    return base, *tangents(lib, base, early, late)


WRITES = {
    "index_put": lambda lib, y, d: y.index_put_((lib.tensor([2, 0]),), d[:2], accumulate=True),
    "scatter": lambda lib, y, d: y.scatter_(0, lib.tensor([2, 0]), d[:2]),
    "masked_fill": lambda lib, y, d: y.masked_fill_(lib.tensor([True, False, True]), d[1]),
    "mask": lambda lib, y, d: y.__setitem__(lib.tensor([True, False, True]), d[:2]),
    "list": lambda lib, y, d: y.__setitem__([0, 2], d[:2]),
    "lists_of_tensors": lambda lib, y, d: lib._foreach_mul_([y], [d]),
    "clamped": lambda lib, y, d: y.clamp_(0, 2),
    "broadcast": lambda lib, y, d: y.copy_(d[:1]),
    "layer": lambda lib, y, d: lib.nn.functional.relu(y, inplace=True),
    "selected": lambda lib, y, d: y.select(0, 1).copy_(d[2]),
    "zeroed_part": lambda lib, y, d: y[1:].zero_(),
    "drawn_part": lambda lib, y, d: y[1:].uniform_(),
    "chunk": lambda lib, y, d: y.narrow(0, 1, 2).sub_(d[:2]),
}

for name, write in WRITES.items():

    @with_dual()
    def a_write(lib, f, d, x, v, write=write):
        y = f.make_dual(lib.tensor([0.5, 1.5, 2.5]), lib.tensor([0.1, 0.2, 0.3])) * 1
        plain = lib.zeros(3)
        write(lib, y, d)
        write(lib, plain, d)
        return tangents(lib, y, plain)

    scenario[-1] = scenario[-1]._replace(name=f"write_{name}")


@with_dual()
def writing_past_the_tape(lib, f, d, x, v):
    copied, past = lib.zeros(3), lib.zeros(3)
    copied.copy_(d)
    past.data.copy_(d)
    with lib.no_grad():
        other = lib.zeros(3)
        other.copy_(d)
        other[0] = d[2]
    return tangents(lib, copied, past, other)


@with_dual()
def writing_plain_values_over_dual_ones(lib, f, d, x, v):
    y = d * 2
    y.copy_(lib.ones(3))
    z = d * 2
    z[0] = lib.tensor(7.0)
    return tangents(lib, y, z)


@with_dual()
def taking_off_the_tape_in_place(lib, f, d, x, v):
    y = d * 1
    y.detach_()
    return tangents(lib, y)


@with_dual()
def changing_the_shape_in_place(lib, f, d, x, v):
    y = (d * 1).unsqueeze_(0)
    return tangents(lib, y, y.t_() * 2)


@with_dual()
def switching_off(lib, f, d, x, v):
    with f._set_fwd_grad_enabled(False):
        off = [*tangents(lib, d * 2, d, f.make_dual(x.clone(), v))]
    with lib.inference_mode():
        inside = tangents(lib, d * 2)
    return off, inside, tangents(lib, d * 2)


@with_dual()
def gradients_have_tangents(lib, f, d, x, v):
    leaf = lib.tensor([1.0, 2.0, 3.0], requires_grad=True)
    dual = f.make_dual(leaf, v)
    y = (dual**3 * dual.sum().exp()).sum()
    (gradient,) = lib.autograd.grad(y, dual, retain_graph=True)
    (again,) = lib.autograd.grad(y, leaf, retain_graph=True)
    y.backward()
    return *f.unpack_dual(gradient), *f.unpack_dual(again), *f.unpack_dual(leaf.grad)


@with_dual()
def gradients_of_values_that_were_overwritten(lib, f, d, x, v):
    leaf = lib.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = f.make_dual(leaf, v) * 2
    z = y.clone()
    out = z.exp()
    z.detach().mul_(3)
    (gradient,) = lib.autograd.grad(out.sum(), y)
    return tuple(f.unpack_dual(gradient))


@with_dual()
def tangents_have_gradients(lib, f, d, x, v):
    leaf = lib.tensor([1.0, 2.0, 3.0], requires_grad=True)
    direction = lib.tensor([1.0, 0.5, 2.0], requires_grad=True)
    tangent = f.unpack_dual(f.make_dual(leaf, direction) ** 3).tangent
    found = lib.autograd.grad(tangent.sum(), (leaf, direction))
    return (tangent.requires_grad, *found)


@with_dual()
def gradients_of_gradients_have_tangents(lib, f, d, x, v):
    leaf = lib.tensor([1.0, 2.0, 3.0], requires_grad=True)
    dual = f.make_dual(leaf, v)
    (first,) = lib.autograd.grad((dual**4).sum(), dual, create_graph=True)
    (second,) = lib.autograd.grad(first.sum(), dual)
    return tuple(f.unpack_dual(second))


@with_dual()
def hooks_see_tangents(lib, f, d, x, v):
    leaf = lib.tensor([1.0, 2.0, 3.0], requires_grad=True)
    seen = []
    y = f.make_dual(leaf, v) ** 2
    y.register_hook(lambda grad: seen.append(f.unpack_dual(grad).tangent))
    (y * y).sum().backward()
    return seen


@with_dual()
def mapped(lib, f, d, x, v):
    return tuple(f.unpack_dual(lib.func.vmap(lambda row: row**2 + x[1] * d.sum())(d)))


@with_dual()
def differentiated(lib, f, d, x, v):
    return tuple(f.unpack_dual(lib.func.grad(lambda z: (z**3).sum())(d)))


@scenario
def the_documented_recipe_for_modules(lib, kit):
    f = lib.autograd.forward_ad
    model = lib.nn.Linear(2, 2)
    with lib.no_grad():
        model.weight.copy_(lib.tensor([[1.0, 2.0], [3.0, 4.0]]))
        model.bias.copy_(lib.tensor([0.5, 1.0]))
    x = lib.tensor([[1.0, -1.0]])
    params = dict(model.named_parameters())
    with f.dual_level():
        for name, p in params.items():
            delattr(model, name)
            setattr(model, name, f.make_dual(p, lib.ones_like(p)))
        out = model(x).relu()
        value, tangent = f.unpack_dual(out)
        return value.detach(), tangent.detach()


@scenario
def functional_call_with_dual_parameters(lib, kit):
    f = lib.autograd.forward_ad
    lib.manual_seed(0)
    model = lib.nn.Sequential(lib.nn.Linear(2, 3), lib.nn.BatchNorm1d(3), lib.nn.Tanh())
    x = lib.tensor([[1.0, -1.0], [0.5, 2.0]])
    with f.dual_level():
        duals = {n: f.make_dual(p, lib.ones_like(p)) for n, p in model.named_parameters()}
        out = lib.func.functional_call(model, duals, x)
        return f.unpack_dual(out).tangent.detach()


@scenario
def after_the_level(lib, kit):
    f = lib.autograd.forward_ad
    x, v = point(lib)
    with f.dual_level() as level:
        d = f.make_dual(x, v)
    primal, tangent = f.unpack_dual(d)
    with f.dual_level():
        again = f.unpack_dual(d).tangent
    return level, primal is d, tangent, again


@scenario
def a_level_as_decorator(lib, kit):
    f = lib.autograd.forward_ad
    x, v = point(lib)

    @f.dual_level()
    def tangent():
        return f.unpack_dual(f.make_dual(x, v) * 2).tangent

    return tangent(), tangent()


@scenario
def entering_and_leaving(lib, kit):
    f = lib.autograd.forward_ad
    level = f.enter_dual_level()
    f.exit_dual_level(level=level)
    return level


@scenario
def representation(lib, kit):
    f = lib.autograd.forward_ad
    with f.dual_level():
        return repr(f.make_dual(*point(lib)))


# What is refused


@scenario("no level exists")
def no_level(lib, kit):
    lib.autograd.forward_ad.make_dual(*point(lib))


@scenario("forward mode AD is not supported")
def a_level_in_a_level(lib, kit):
    f = lib.autograd.forward_ad
    with f.dual_level(), f.dual_level():
        pass


@scenario
def leaving_no_level(lib, kit):
    lib.autograd.forward_ad.exit_dual_level()


@scenario("not the last one that was created")
def leaving_another_level(lib, kit):
    f = lib.autograd.forward_ad
    with f.dual_level():
        f.exit_dual_level(level=3)


@with_dual("primal to be floating point or complex")
def an_integer_has_no_tangent(lib, f, d, x, v):
    f.make_dual(x.long(), v)


@with_dual("tangent to be floating point or complex")
def an_integer_is_no_tangent(lib, f, d, x, v):
    f.make_dual(x, v.long())


@with_dual("different size", "[3]", "[2]")
def another_shape(lib, f, d, x, v):
    f.make_dual(x, v[:2])


@with_dual("already has a forward gradient at the same level")
def a_dual_tensor_of_a_dual_tensor(lib, f, d, x, v):
    f.make_dual(d, v)


@with_dual("a forward gradient at the same level")
def a_tangent_with_a_tangent(lib, f, d, x, v):
    f.make_dual(x, d)


@with_dual("out=")
def writing_out(lib, f, d, x, v):
    lib.mul(d, 2, out=lib.empty(3))


@with_dual("leaf")
def writing_to_a_leaf(lib, f, d, x, v):
    f.make_dual(x.clone().requires_grad_(), v).mul_(2)


# Custom Functions


def function(lib, jvp, forward=None):
    """A Function with a gradient and this ``jvp``."""

    class Scaled(lib.autograd.Function):
        @staticmethod
        def backward(ctx, grad):
            return grad * 3

    Scaled.forward = staticmethod(forward or (lambda ctx, x: x * 3))
    if jvp is not None:
        Scaled.jvp = staticmethod(jvp)
    return Scaled.apply


@with_dual()
def jvp_of_a_function(lib, f, d, x, v):
    seen = []

    class Product(lib.autograd.Function):
        @staticmethod
        def forward(ctx, a, b, factor):
            seen.append(f.unpack_dual(a).tangent)
            ctx.save_for_forward(a, b)
            ctx.factor = factor
            return a * b * factor

        @staticmethod
        def jvp(ctx, a, b, factor):
            seen.extend([a, b, factor, f._is_fwd_grad_enabled(), lib.is_grad_enabled()])
            left, right = ctx.saved_tensors
            return (a * right + left * b) * ctx.factor

    leaf = lib.tensor([2.0, 3.0, 4.0], requires_grad=True)
    out = Product.apply(d, leaf, 2.0)
    return seen[:-3], seen[-3:], [each.detach() for each in f.unpack_dual(out)]


@with_dual()
def jvp_with_setup_context(lib, f, d, x, v):
    class Power(lib.autograd.Function):
        @staticmethod
        def forward(x, factor):
            return x**factor, x > 1

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.set_materialize_grads(False)
            ctx.mark_non_differentiable(output[1])
            ctx.save_for_forward(inputs[0])
            ctx.factor = inputs[1]

        @staticmethod
        def jvp(ctx, tangent, factor):
            (x,) = ctx.saved_tensors
            return ctx.factor * x ** (ctx.factor - 1) * tangent, None

    y, mask = Power.apply(d, 3)
    return *f.unpack_dual(y), mask, *tangents(lib, mask)


@with_dual()
def jvp_that_writes_in_place(lib, f, d, x, v):
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(3)

    out = function(lib, lambda ctx, t: t.mul_(3), forward)(d)
    return x, v, *tangents(lib, out, d)


@with_dual()
def jvp_of_a_view(lib, f, d, x, v):
    out = function(lib, lambda ctx, t: t.view(3, 1), lambda ctx, x: x.view(3, 1))(d)
    return tangents(lib, out)


@with_dual()
def backward_of_a_function_has_tangents(lib, f, d, x, v):
    class Square(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x * x
            ctx.save_for_backward(x, y)
            ctx.save_for_forward(x)
            return y

        @staticmethod
        def backward(ctx, grad):
            x, y = ctx.saved_tensors
            return grad * y / x * 2

        @staticmethod
        def jvp(ctx, tangent):
            (x,) = ctx.saved_tensors
            return 2 * x * tangent

    leaf = lib.tensor([1.0, 2.0, 3.0], requires_grad=True)
    dual = f.make_dual(leaf, v)
    (gradient,) = lib.autograd.grad((Square.apply(dual) ** 2).sum(), dual)
    return tuple(f.unpack_dual(gradient))


@with_dual("implement", "jvp")
def a_function_without_jvp(lib, f, d, x, v):
    function(lib, None)(d)


@with_dual("invalid number of", "2")
def jvp_gives_too_many(lib, f, d, x, v):
    function(lib, lambda ctx, t: (t, t))(d)


@with_dual("size", "[3]", "[2]")
def jvp_gives_another_shape(lib, f, d, x, v):
    function(lib, lambda ctx, t: t[:2])(d)


@with_dual("jvp")
def jvp_does_not_write_in_place(lib, f, d, x, v):
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(3)

    function(lib, lambda ctx, t: t * 3, forward)(d)


@with_dual("view")
def jvp_gives_no_view(lib, f, d, x, v):
    function(lib, lambda ctx, t: t.view(3, 1).clone(), lambda ctx, x: x.view(3, 1))(d)


@with_dual("float")
def jvp_gives_a_number(lib, f, d, x, v):
    function(lib, lambda ctx, t: 3.0)(d)


@with_dual("position 1")
def jvp_gives_a_tangent_of_a_mask(lib, f, d, x, v):
    def forward(ctx, x):
        mask = x > 1
        ctx.mark_non_differentiable(mask)
        return x * 3, mask

    function(lib, lambda ctx, t: (t * 3, t), forward)(d)


@scenario
def jvp_under_func_jvp(lib, kit):
    class Cube(lib.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x):
            return x**3

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)
            ctx.save_for_forward(*inputs)

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return 3 * x * x * grad

        @staticmethod
        def jvp(ctx, tangent):
            (x,) = ctx.saved_tensors
            return 30 * x * x * tangent  # Ten times too much, so that it shows who is asked.

    x, v = point(lib)
    return (
        lib.func.jvp(Cube.apply, (x,), (v,)),
        lib.func.jacfwd(lambda x: Cube.apply(x).sum())(x),
        lib.func.grad(lambda x: Cube.apply(x).sum())(x),
    )


@scenario("jvp")
def no_jvp_under_func_jvp(lib, kit):
    class Cube(lib.autograd.Function):
        @staticmethod
        def forward(x):
            return x**3

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def backward(ctx, grad):
            return grad

    x, v = point(lib)
    return lib.func.jvp(Cube.apply, (x,), (v,))


@scenario
def gradcheck_asks_jvp(lib, kit):
    class Cube(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_forward(x)
            return x**3

        @staticmethod
        def jvp(ctx, tangent):
            (x,) = ctx.saved_tensors
            return 3 * x * x * tangent

    x = lib.tensor([1.0, 2.0], dtype=lib.float64, requires_grad=True)
    return lib.autograd.gradcheck(Cube.apply, x, check_forward_ad=True, check_backward_ad=False)
