"""`func.vmap`: functions of one example applied to batches."""

from tests.conformance.scenario import Table

scenario = Table()


def matrix(lib):
    return lib.tensor([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]])


def batching(name, call):
    """A scenario that calls functions of `func` on a matrix."""

    def run(lib, kit):
        return call(lib, lib.func, matrix(lib))

    run.__name__ = name
    scenario(run)


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
