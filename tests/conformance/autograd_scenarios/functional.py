"""`autograd.functional` and `gradcheck`."""

from tests.conformance.scenario import Table

scenario = Table()

OPTIONS = {
    "plain": {},
    "vectorized": {"vectorize": True},
    "forward": {"vectorize": True, "strategy": "forward-mode"},
    "recorded": {"create_graph": True},
    "strict": {"strict": True},
    "forward_row_by_row": {"strategy": "forward-mode"},
    "strict_and_vectorized": {"strict": True, "vectorize": True},
}


def inputs(lib):
    """A vector and a matrix."""
    return lib.tensor([1.0, 2.0, 3.0]), lib.tensor([[1.0, 2.0], [3.0, 4.0]])


def cube(x):
    return x * x * x


def pair(x, w):
    return x.sum() * w, x * x


def scalar(x, w):
    return (x * x).sum() * (w * w * w).sum()


def values(found):
    """Nested results as nested tuples of tensors without history."""
    if isinstance(found, list | tuple):
        return tuple(map(values, found))
    return found.detach()


for name, options in OPTIONS.items():

    @scenario
    def jacobian(lib, kit, options=options):
        x, w = inputs(lib)
        jacobian = lib.autograd.functional.jacobian
        one = jacobian(cube, x, **options)
        return values(one), values(jacobian(pair, (x, w), **options))

    @scenario
    def hessian(lib, kit, options=options):
        x, w = inputs(lib)
        options = dict(options)
        if "strategy" in options:
            options["outer_jacobian_strategy"] = options.pop("strategy")
        hessian = lib.autograd.functional.hessian
        one = hessian(lambda x: cube(x).sum(), x, **options)
        return values(one), values(hessian(scalar, (x, w), **options))

    for entry in scenario[-2:]:
        entry.run.__name__ = f"{entry.name}_{name}"
    scenario[-2:] = [entry._replace(name=entry.run.__name__) for entry in scenario[-2:]]


def calling(name, call):
    """A scenario that calls one function of `autograd.functional`."""

    def run(lib, kit):
        return values(call(lib, lib.autograd.functional, *inputs(lib)))

    run.__name__ = name
    scenario(run)


calling("jacobian_of_a_tuple_of_one", lambda lib, f, x, w: f.jacobian(cube, (x,)))
calling("jacobian_of_a_constant", lambda lib, f, x, w: f.jacobian(lambda x: lib.ones(2), x))
calling(
    "jacobian_of_a_constant_strictly",
    lambda lib, f, x, w: f.jacobian(lambda x: lib.ones(2), x, strict=True),
)
calling("jacobian_without_dependence", lambda lib, f, x, w: f.jacobian(lambda x, w: x, (x, w)))
calling(
    "jacobian_without_dependence_strictly",
    lambda lib, f, x, w: f.jacobian(lambda x, w: x, (x, w), strict=True),
)
calling("jacobian_of_a_number", lambda lib, f, x, w: f.jacobian(lambda x: 3, x))
calling("jacobian_by_a_number", lambda lib, f, x, w: f.jacobian(cube, 3))
calling("jacobian_by_a_list", lambda lib, f, x, w: f.jacobian(cube, [x]))
calling("hessian_of_a_vector", lambda lib, f, x, w: f.hessian(cube, x))
calling("hessian_of_a_tuple", lambda lib, f, x, w: f.hessian(lambda x: (x.sum(),), x))
calling("hessian_of_a_linear_function", lambda lib, f, x, w: f.hessian(lambda x: x.sum(), x))
calling(
    "hessian_of_a_linear_function_strictly",
    lambda lib, f, x, w: f.hessian(lambda x: x.sum(), x, strict=True),
)
calling("vjp", lambda lib, f, x, w: f.vjp(cube, x, lib.tensor([1.0, 0.0, 2.0])))
calling("vjp_of_a_scalar", lambda lib, f, x, w: f.vjp(scalar, (x, w)))
calling("vjp_of_several", lambda lib, f, x, w: f.vjp(pair, (x, w), (w, x)))
calling("vjp_without_vectors", lambda lib, f, x, w: f.vjp(cube, x))
calling("vjp_with_vectors_of_another_shape", lambda lib, f, x, w: f.vjp(cube, x, w))
calling("vjp_with_too_many_vectors", lambda lib, f, x, w: f.vjp(cube, x, (x, x)))
calling("vjp_recorded", lambda lib, f, x, w: f.vjp(cube, x, x, create_graph=True))
calling("vjp_of_a_constant", lambda lib, f, x, w: f.vjp(lambda x: lib.ones(3), x, x))
calling(
    "vjp_of_a_constant_strictly",
    lambda lib, f, x, w: f.vjp(lambda x: lib.ones(3), x, x, strict=True),
)
calling("jvp", lambda lib, f, x, w: f.jvp(cube, x, lib.tensor([1.0, 0.0, 2.0])))
calling("jvp_of_several", lambda lib, f, x, w: f.jvp(pair, (x, w), (x, w)))
calling("jvp_by_a_scalar", lambda lib, f, x, w: f.jvp(cube, lib.tensor(2.0)))
calling("jvp_without_vectors", lambda lib, f, x, w: f.jvp(cube, x))
calling("jvp_of_a_constant", lambda lib, f, x, w: f.jvp(lambda x: lib.ones(3), x, x))
calling(
    "jvp_of_a_constant_strictly",
    lambda lib, f, x, w: f.jvp(lambda x: lib.ones(3), x, x, strict=True),
)
for product in ("vhp", "hvp"):

    def call(product=product, **options):
        return lambda lib, f, x, w: getattr(f, product)(scalar, (x, w), (x, w), **options)

    calling(product, call())
    calling(f"{product}_recorded", call(create_graph=True))
    calling(f"{product}_strictly", call(strict=True))
    calling(
        f"{product}_of_a_vector",
        lambda lib, f, x, w, product=product: getattr(f, product)(cube, x, x),
    )
    calling(
        f"{product}_without_vectors",
        lambda lib, f, x, w, product=product: getattr(f, product)(lambda x: cube(x).sum(), x),
    )
    calling(
        f"{product}_of_a_linear_function",
        lambda lib, f, x, w, product=product: getattr(f, product)(lambda x: x.sum(), x, x),
    )
    calling(
        f"{product}_of_a_linear_function_strictly",
        lambda lib, f, x, w, product=product: getattr(f, product)(
            lambda x: x.sum(), x, x, strict=True
        ),
    )


@scenario
def a_recorded_jacobian_is_differentiated(lib, kit):
    x = lib.tensor([1.0, 2.0], requires_grad=True)
    lib.autograd.functional.jacobian(cube, x, create_graph=True).sum().backward()
    return x.grad


@scenario
def a_jacobian_inside_no_grad(lib, kit):
    with lib.no_grad():
        return lib.autograd.functional.jacobian(cube, inputs(lib)[0])


# gradcheck


def wrong(lib):
    """A function with a wrong gradient."""

    class Wrong(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * x

        @staticmethod
        def backward(ctx, grad):
            return grad

    return Wrong.apply


def checking(name, check):
    """Scenarios of one check, of the whole Jacobian and of a projection."""
    for fast in (False, True):

        def run(lib, kit, fast=fast):
            x = lib.tensor([0.5, -1.5, 2.0], dtype=lib.float64, requires_grad=True)
            z = lib.tensor([0.5 + 1j, -1.5j], dtype=lib.complex128, requires_grad=True)
            return check(lib, lib.autograd, x, z, {"fast_mode": fast})

        run.__name__ = f"{name}{'_fast' if fast else ''}"
        scenario(run)


checking("gradcheck", lambda lib, a, x, z, o: a.gradcheck(lambda x: x.exp() * x, x, **o))
checking("gradcheck_of_a_wrong_one", lambda lib, a, x, z, o: a.gradcheck(wrong(lib), x, **o))
checking(
    "gradcheck_that_does_not_raise",
    lambda lib, a, x, z, o: a.gradcheck(wrong(lib), x, raise_exception=False, **o),
)
checking("gradcheck_of_nothing", lambda lib, a, x, z, o: a.gradcheck(lambda x: x, x.detach(), **o))
checking("gradcheck_of_complex", lambda lib, a, x, z, o: a.gradcheck(lambda z: z * z, z, **o))
checking(
    "gradcheck_of_complex_to_real",
    lambda lib, a, x, z, o: a.gradcheck(lambda z: (z * z.conj()).real, z, **o),
)
checking(
    "gradcheck_of_real_to_complex",
    lambda lib, a, x, z, o: a.gradcheck(lambda x: x * (1 + 2j), x, **o),
)
checking("gradcheck_of_detached", lambda lib, a, x, z, o: a.gradcheck(lambda x: x.detach(), x, **o))
checking(
    "gradcheck_of_a_constant",
    lambda lib, a, x, z, o: a.gradcheck(
        lambda x: lib.ones(3, dtype=lib.float64, requires_grad=True) * 1, x, **o
    ),
)
checking(
    "gradcheck_with_other_arguments",
    lambda lib, a, x, z, o: a.gradcheck(lambda x, k, y: x * k * y, (x, 3, x.detach() * 2), **o),
)
checking(
    "gradcheck_with_integer_outputs",
    lambda lib, a, x, z, o: a.gradcheck(lambda x: (x * x, x.long()), x, **o),
)
checking(
    "gradcheck_of_several_outputs",
    lambda lib, a, x, z, o: a.gradcheck(
        lambda x, y: (x * y, x.sum()), (x, x.detach().clone().requires_grad_()), **o
    ),
)
checking("gradgradcheck", lambda lib, a, x, z, o: a.gradgradcheck(lambda x: x**3, x, **o))
checking(
    "gradgradcheck_with_cotangents",
    lambda lib, a, x, z, o: a.gradgradcheck(
        lambda x: x**3, x, lib.ones(3, dtype=lib.float64, requires_grad=True), **o
    ),
)
checking(
    "gradcheck_of_batches",
    lambda lib, a, x, z, o: a.gradcheck(lambda x: x.exp() * x, x, check_batched_grad=True, **o),
)

# gradcheck in forward mode

FORWARD = {"check_forward_ad": True}
ONLY_FORWARD = {**FORWARD, "check_backward_ad": False}

checking("gradcheck_forward", lambda lib, a, x, z, o: a.gradcheck(cube, x, **FORWARD, **o))
checking(
    "gradcheck_only_forward", lambda lib, a, x, z, o: a.gradcheck(cube, x, **ONLY_FORWARD, **o)
)
checking(
    "gradcheck_of_complex_forward", lambda lib, a, x, z, o: a.gradcheck(cube, z, **FORWARD, **o)
)
checking(
    "gradcheck_of_complex_to_real_forward",
    lambda lib, a, x, z, o: a.gradcheck(lambda z: (z * z.conj()).real, z, **FORWARD, **o),
)
checking(
    "gradcheck_of_real_to_complex_forward",
    lambda lib, a, x, z, o: a.gradcheck(lambda x: x * x * (1 + 2j), x, **FORWARD, **o),
)
checking(
    "gradcheck_of_several_forward",
    lambda lib, a, x, z, o: a.gradcheck(
        lambda x, k, y: (x * k * y, x.sum(), x.long()),
        (x, 3, x.detach() * 2),
        **FORWARD,
        **o,
    ),
)
checking(
    "gradcheck_of_detached_forward",
    lambda lib, a, x, z, o: a.gradcheck(lambda x: x.detach(), x, **FORWARD, **o),
)
checking(
    "gradcheck_of_a_function_without_forward_mode",
    lambda lib, a, x, z, o: a.gradcheck(wrong(lib), x, **ONLY_FORWARD, **o),
)
checking(
    "gradcheck_of_forward_batches",
    lambda lib, a, x, z, o: a.gradcheck(cube, x, check_batched_forward_grad=True, **FORWARD, **o),
)
for name, settings in {
    "of_no_mode": {"check_backward_ad": False},
    "of_batches_without_backward": {**ONLY_FORWARD, "check_batched_grad": True},
    "of_forward_batches_without_forward": {"check_batched_forward_grad": True},
    "of_what_is_masked": {"masked": True},
}.items():
    checking(
        f"gradcheck_{name}",
        lambda lib, a, x, z, o, settings=settings: a.gradcheck(cube, x, **settings, **o),
    )
for name, settings in {
    "forward_over_reverse": {"check_fwd_over_rev": True},
    "only_forward_over_reverse": {
        "check_fwd_over_rev": True, "check_rev_over_rev": False, "check_undefined_grad": False,
    },
    "only_forward_over_reverse_and_undefined": {
        "check_fwd_over_rev": True, "check_rev_over_rev": False,
    },
    "of_no_mode": {"check_rev_over_rev": False, "check_undefined_grad": False},
    "of_batches": {"check_batched_grad": True},
    "with_cotangents_that_are_not_contiguous": {"gen_non_contig_grad_outputs": True},
}.items():  # fmt: skip
    checking(
        f"gradgradcheck_{name}",
        lambda lib, a, x, z, o, settings=settings: a.gradgradcheck(cube, x, **settings, **o),
    )
