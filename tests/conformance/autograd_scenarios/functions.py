"""Custom Functions."""

from tests.conformance.scenario import Table

scenario = Table()


def leaf(lib, *values):
    """A leaf that requires grad."""
    return lib.tensor(values or (1.0, 2.0), requires_grad=True)


def make(lib, forward, backward, **members):
    """A Function of these static methods."""
    methods = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    return type("Made", (lib.autograd.Function,), {**methods, **members})


def double(ctx, x):
    return x * 2


def through(ctx, grad):
    return grad


@scenario
def saved_tensors(lib, kit):
    def forward(ctx, x, factor):
        ctx.save_for_backward(x)
        ctx.factor = factor
        return x * x * factor

    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * x * ctx.factor * grad, None

    x = leaf(lib)
    y = make(lib, forward, backward).apply(x, 3)
    y.sum().backward()
    return y.detach(), x.grad, type(y.grad_fn), y.grad_fn.name(), y.grad_fn.factor


@scenario
def saved_inputs_outputs_and_others(lib, kit):
    other, seen = lib.ones(2), []

    def forward(ctx, x):
        y = x * 2
        ctx.save_for_backward(x, None, y, other)
        return y

    def backward(ctx, grad):
        saved = ctx.saved_tensors
        seen.append((saved[0] is x, saved[1], saved[2].grad_fn is y.grad_fn, saved[3] is other))
        return grad

    x = leaf(lib)
    y = make(lib, forward, backward).apply(x)
    y.sum().backward()
    return seen


@scenario
def saved_tensors_before_and_after_backward(lib, kit):
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    y = make(lib, forward, through).apply(leaf(lib))
    before = len(y.grad_fn.saved_tensors)
    y.sum().backward()
    try:
        return before, y.grad_fn.saved_tensors
    except RuntimeError:
        return before, "freed"


@scenario
def a_second_backward_that_needs_what_was_saved(lib, kit):
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    y = make(lib, forward, lambda ctx, grad: grad * ctx.saved_tensors[0]).apply(leaf(lib)).sum()
    y.backward()
    y.backward()


@scenario
def a_second_backward_that_needs_nothing(lib, kit):
    x = leaf(lib)
    y = make(lib, double, through).apply(x).sum()
    y.backward()
    y.backward()
    return x.grad


@scenario("save_for_backward", "int")
def something_else_saved(lib, kit):
    def forward(ctx, x):
        ctx.save_for_backward(3)
        return x * 2

    make(lib, forward, through).apply(leaf(lib))


@scenario
def forward_is_not_recorded(lib, kit):
    seen = []

    def forward(ctx, x):
        y = x * 2
        seen.append((lib.is_grad_enabled(), y.requires_grad, ctx.needs_input_grad))
        return y

    function = make(lib, forward, through)
    with lib.no_grad():
        quiet = function.apply(leaf(lib))
    return seen, quiet.requires_grad, function.apply(leaf(lib)).requires_grad, seen


@scenario
def needs_input_grad(lib, kit):
    seen = []

    def forward(ctx, a, b, c):
        seen.append(ctx.needs_input_grad)
        return a * b * c

    def backward(ctx, grad):
        seen.append(ctx.needs_input_grad)
        return grad, grad, None

    a, b = leaf(lib), lib.ones(2)
    make(lib, forward, backward).apply(a, b, 3).sum().backward()
    return seen, a.grad, b.grad


def outputs(name, forward):
    """A scenario about what forward returns."""

    def run(lib, kit):
        x = leaf(lib)
        result = make(lib, lambda ctx, x: forward(lib, x), lambda ctx, *g: g[0]).apply(x)
        parts = result if isinstance(result, tuple) else (result,)
        return result, [getattr(each, "requires_grad", None) for each in parts]

    run.__name__ = f"forward_that_returns_{name}"
    scenario(run)


outputs("a_number", lambda lib, x: 3)
outputs("nothing", lambda lib, x: None)
outputs("a_list", lambda lib, x: [x * 2])
outputs("an_empty_tuple", lambda lib, x: ())
outputs("a_tensor_and_others", lambda lib, x: (x * 2, 5, None))
outputs("integers", lambda lib, x: x.long())
outputs("floats_and_integers", lambda lib, x: (x * 2, x.long()))


def gradients(name, backward):
    """A scenario about what backward returns for two arguments, the second no tensor."""

    def run(lib, kit):
        x = leaf(lib)
        function = make(lib, lambda ctx, x, k: x * k, lambda ctx, g: backward(lib, g))
        function.apply(x, 2).sum().backward()
        return x.grad

    run.__name__ = f"backward_that_returns_{name}"
    scenario(run)


gradients("what_it_should", lambda lib, g: (g * 5, None))
gradients("too_few", lambda lib, g: g)
gradients("nothing_at_all", lambda lib, g: ())
gradients("none_for_all", lambda lib, g: (None, None))
gradients("more_that_are_none", lambda lib, g: (g, None, None))
gradients("too_many", lambda lib, g: (g, None, g))
gradients("one_for_what_is_no_tensor", lambda lib, g: (g, g))
gradients("a_number", lambda lib, g: (1.0, None))
gradients("a_list", lambda lib, g: [g, None])
gradients("another_shape", lambda lib, g: (lib.ones(3), None))
gradients("a_smaller_shape", lambda lib, g: (g.sum(), None))
gradients("a_larger_shape", lambda lib, g: (lib.ones(5, 2), None))
gradients("another_dtype", lambda lib, g: (g.double(), None))
gradients("complex_numbers", lambda lib, g: (g.to(lib.complex64), None))


@scenario
def several_inputs_and_outputs(lib, kit):
    seen = []

    def forward(ctx, a, b):
        return a * b, a + b

    def backward(ctx, product, total):
        seen.append((product.tolist(), total.tolist()))
        return product + total, total * 10

    a, b = leaf(lib), leaf(lib, 3.0, 4.0)
    first, second = make(lib, forward, backward).apply(a, b)
    (first * 2 + second * 3).sum().backward()
    return seen, a.grad, b.grad, second.output_nr


@scenario
def the_same_tensor_as_both_inputs(lib, kit):
    x = leaf(lib)
    make(lib, lambda ctx, a, b: a * b, lambda ctx, g: (g, g * 2)).apply(x, x).sum().backward()
    return x.grad


def unused_outputs(name, value):
    """A scenario about what backward gets for an output that has no gradient."""

    def run(lib, kit):
        seen = []

        def forward(ctx, x):
            if value is not None:
                ctx.set_materialize_grads(value)
            return x * 2, x * 3

        def backward(ctx, first, second):
            seen.append([None if g is None else g.tolist() for g in (first, second)])
            return first

        make(lib, forward, backward).apply(leaf(lib))[0].sum().backward()
        return seen

    run.__name__ = f"gradients_of_unused_outputs_{name}"
    scenario(run)


unused_outputs("by_default", None)
unused_outputs("materialized", True)
unused_outputs("not_materialized", False)


@scenario
def backward_runs_even_without_any_gradient(lib, kit):
    seen = []

    def note(ctx, grad):
        seen.append(grad.tolist())
        return grad

    x = leaf(lib)
    first = make(lib, double, note).apply(x)
    make(lib, double, lambda ctx, grad: None).apply(first).sum().backward()
    return seen, x.grad


@scenario
def outputs_marked_as_non_differentiable(lib, kit):
    seen = []

    def forward(ctx, x):
        first, second = x * 2, x * 3
        ctx.mark_non_differentiable(second)
        return first, second

    def backward(ctx, first, second):
        seen.append((first.tolist(), second.tolist()))
        return first

    first, second = make(lib, forward, backward).apply(leaf(lib))
    first.sum().backward()
    return first.requires_grad, second.requires_grad, second.grad_fn, seen


@scenario
def an_input_returned_as_it_is(lib, kit):
    x = leaf(lib)
    y = make(lib, lambda ctx, x: x, lambda ctx, g: g * 7).apply(x)
    y.sum().backward()
    return y is x, y._is_view(), x.grad, x.is_leaf


@scenario
def an_input_returned_as_it_is_cannot_be_written(lib, kit):
    y = make(lib, lambda ctx, x: x, through).apply(leaf(lib) * 1)
    y.add_(1)


@scenario
def a_view_of_an_input_returned(lib, kit):
    x = leaf(lib)
    y = make(lib, lambda ctx, x: x.view(1, 2), lambda ctx, g: g.view(2) * 7).apply(x)
    y.sum().backward()
    return y._is_view(), x.grad


@scenario
def a_view_of_an_input_returned_cannot_be_written(lib, kit):
    y = make(lib, lambda ctx, x: x.view(1, 2), lambda ctx, g: g.view(2)).apply(leaf(lib) * 1)
    y.add_(1)


def add_one(ctx, x):
    x.add_(1)
    ctx.mark_dirty(x)
    return x


@scenario
def an_input_written_in_place(lib, kit):
    x = leaf(lib)
    y = x * 2
    z = make(lib, add_one, lambda ctx, g: g * 7).apply(y)
    y.sum().backward()
    return z is y, y.detach(), type(y.grad_fn), x.grad


@scenario
def a_leaf_written_in_place(lib, kit):
    make(lib, add_one, through).apply(leaf(lib))


@scenario
def a_tensor_without_grad_written_in_place(lib, kit):
    x = lib.zeros(2)
    y = make(lib, add_one, through).apply(x)
    return y is x, x, x.requires_grad


@scenario
def a_tensor_without_grad_written_from_one_with_grad(lib, kit):
    def forward(ctx, target, source):
        target.add_(source)
        ctx.mark_dirty(target)
        return target

    target, source = lib.zeros(2), leaf(lib)
    result = make(lib, forward, lambda ctx, g: (g, g * 7)).apply(target, source)
    target.sum().backward()
    return result is target, target.requires_grad, source.grad


@scenario
def a_view_written_in_place(lib, kit):
    x = leaf(lib)
    y = x * 2
    view = y[:1]
    result = make(lib, add_one, lambda ctx, g: g * 7).apply(view)
    (y * y).sum().backward()
    return result is view, y.detach(), x.grad


@scenario
def an_input_written_in_place_and_not_returned(lib, kit):
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x * 2

    make(lib, forward, through).apply(leaf(lib) * 1)


@scenario
def setup_context(lib, kit):
    seen = []

    class Scale(lib.autograd.Function):
        @staticmethod
        def forward(x, factor=2):
            return x * factor

        @staticmethod
        def setup_context(ctx, inputs, output):
            seen.append((len(inputs), output.tolist(), lib.is_grad_enabled()))
            ctx.save_for_backward(inputs[0])
            ctx.factor = inputs[1]

        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.factor, None

    x = leaf(lib)
    for y in (Scale.apply(x, 3), Scale.apply(x), Scale.apply(x=x, factor=5)):
        y.sum().backward()
    return seen, x.grad


@scenario
def keyword_arguments(lib, kit):
    x, w = leaf(lib), leaf(lib, 3.0, 4.0)
    function = make(lib, lambda ctx, x, w: x * w, lambda ctx, g: (g, g * 2))
    return lib.autograd.grad(function.apply(w=w, x=x).sum(), [x, w])


@scenario
def tensors_inside_lists_take_no_gradient(lib, kit):
    return make(lib, lambda ctx, x: x[0] * 2, through).apply([leaf(lib)]).requires_grad


@scenario
def backward_is_differentiated(lib, kit):
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 3 * x**2 * grad

    x = leaf(lib)
    y = make(lib, forward, backward).apply(x).sum()
    (first,) = lib.autograd.grad(y, x, create_graph=True)
    (second,) = lib.autograd.grad(first.sum(), x, create_graph=True)
    return first.detach(), second.detach(), lib.autograd.grad(second.sum(), x)


@scenario
def backward_that_uses_a_saved_output_is_differentiated(lib, kit):
    def forward(ctx, x):
        y = 1 / x
        ctx.save_for_backward(y)
        return y

    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        return -y * y * grad

    x = leaf(lib)
    (first,) = lib.autograd.grad(make(lib, forward, backward).apply(x).sum(), x, create_graph=True)
    return first.detach(), lib.autograd.grad(first.sum(), x)


def square_once(lib):
    """A Function whose backward cannot be differentiated."""

    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @lib.autograd.function.once_differentiable
    def backward(ctx, grad):
        return 2 * grad * ctx.saved_tensors[0]

    return make(lib, forward, backward)


@scenario
def once_differentiable(lib, kit):
    x = leaf(lib)
    y = square_once(lib).apply(x)
    (first,) = lib.autograd.grad((y * y).sum(), x, create_graph=True)
    return first.detach(), first.requires_grad


@scenario("differentiate twice", "once_differentiable")
def once_differentiable_differentiated_twice(lib, kit):
    x = leaf(lib)
    y = square_once(lib).apply(x)
    (first,) = lib.autograd.grad((y * y).sum(), x, create_graph=True)
    first.sum().backward()


@scenario
def vjp_is_another_name_for_backward(lib, kit):
    class Double(lib.autograd.Function):
        forward = staticmethod(double)
        vjp = staticmethod(lambda ctx, grad: grad * 7)

    x = leaf(lib)
    Double.apply(x).sum().backward()
    return x.grad


@scenario("backward", "vjp")
def both_backward_and_vjp(lib, kit):
    class Double(lib.autograd.Function):
        forward = staticmethod(double)
        backward = staticmethod(through)
        vjp = staticmethod(through)

    Double.apply(leaf(lib)).sum().backward()


@scenario("forward")
def no_forward(lib, kit):
    class Empty(lib.autograd.Function):
        pass

    Empty.apply(leaf(lib))


@scenario("backward", "vjp")
def no_backward(lib, kit):
    class Half(lib.autograd.Function):
        forward = staticmethod(double)

    Half.apply(leaf(lib)).sum().backward()


@scenario
def backward_that_raises(lib, kit):
    def backward(ctx, grad):
        raise KeyError("mine")

    make(lib, double, backward).apply(leaf(lib)).sum().backward()


@scenario
def a_function_that_is_called(lib, kit):
    make(lib, double, through)()(leaf(lib))


@scenario
def hooks_on_the_node_of_a_function(lib, kit):
    seen = []
    y = make(lib, double, lambda ctx, g: g * 3).apply(leaf(lib))
    y.grad_fn.register_prehook(lambda out: seen.append(("before", out[0].tolist())))
    y.grad_fn.register_hook(
        lambda into, out: seen.append(("after", into[0].tolist(), out[0].tolist()))
    )
    y.sum().backward()
    return seen


@scenario
def backward_inside_backward(lib, kit):
    w = leaf(lib, 3.0, 4.0)

    def backward(ctx, grad):
        with lib.enable_grad():
            (w * 5).sum().backward()
        return grad

    x = leaf(lib)
    make(lib, double, backward).apply(x).sum().backward()
    return x.grad, w.grad


@scenario
def a_function_of_a_function(lib, kit):
    outer = make(lib, double, lambda ctx, g: g * 3)
    inner = make(lib, double, lambda ctx, g: g * 5)
    x = leaf(lib)
    outer.apply(inner.apply(x)).sum().backward()
    return x.grad


def mapped(lib, rule, forward=lambda x, k: x * k, **attributes):
    """A Function with a ``vmap``, mapped."""

    class Mapped(lib.autograd.Function):
        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.k = inputs[1]

        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.k, None

    Mapped.forward = staticmethod(forward)
    Mapped.vmap = staticmethod(lambda info, in_dims, *args: rule(Mapped, info, in_dims, *args))
    for name, value in attributes.items():
        setattr(Mapped, name, value)
    return Mapped.apply


@scenario
def a_vmap_of_ones_own(lib, kit):
    seen = []

    def rule(cls, info, in_dims, x, k):
        seen.append((info.batch_size, info.randomness, in_dims, tuple(x.shape), k))
        return cls.apply(x, k) + 100, 0

    function = mapped(lib, rule)
    x = lib.arange(6.0).reshape(2, 3)
    return lib.func.vmap(lambda each: function(each, 3))(x), seen, function(x, 3)


@scenario
def a_vmap_of_several_results(lib, kit):
    def rule(cls, info, in_dims, x, k):
        return (x.t() * k, x.sum(0), "text"), (1, None, None)

    function = mapped(lib, rule, lambda x, k: (x * k, x, "text"))
    x = lib.arange(6.0).reshape(2, 3)
    return lib.func.vmap(lambda each: function(each, 3)[:2], out_dims=(0, None))(x)


@scenario
def a_gradient_through_a_vmap_of_ones_own(lib, kit):
    function = mapped(lib, lambda cls, info, in_dims, x, k: (cls.apply(x, k), 0))
    x = lib.arange(6.0).reshape(2, 3).requires_grad_()
    (lib.func.vmap(lambda each: function(each, 3))(x) ** 2).sum().backward()
    per_example = lib.func.vmap(lib.func.grad(lambda each: function(each, 3).sum()))
    return x.grad, per_example(x.detach())


@scenario
def a_vmap_and_a_generated_one(lib, kit):
    function = mapped(lib, lambda cls, info, in_dims, x, k: (x, 0), generate_vmap_rule=True)
    lib.func.vmap(lambda each: function(each, 3))(lib.ones(2, 3))


@scenario
def a_vmap_that_returns_too_little(lib, kit):
    function = mapped(lib, lambda cls, info, in_dims, x, k: x)
    lib.func.vmap(lambda each: function(each, 3))(lib.ones(2, 3))
