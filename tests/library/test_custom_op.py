"""Custom operators run eagerly, in compiled functions, under vmap, and with gradients."""

import numpy as np
import pytest

import flambeau
from flambeau import Tensor, library, ops
from flambeau.library import custom_op

F64 = flambeau.float64


@custom_op("test_custom_op::sine", mutates_args=())
def sine(x: Tensor, scale: float = 1.0) -> Tensor:
    return flambeau.from_numpy(np.sin(x.numpy()) * x.numpy().dtype.type(scale))


@sine.register_fake
def _(x, scale=1.0):
    return flambeau.empty_like(x)


def _keep(ctx, inputs, output):
    x, ctx.scale = inputs
    ctx.save_for_backward(x)


sine.register_autograd(
    lambda ctx, grad: (grad * ctx.saved_tensors[0].cos() * ctx.scale, None), setup_context=_keep
)


@custom_op("test_custom_op::double", mutates_args=())
def double(x: Tensor) -> Tensor:
    return x * 2


@custom_op("test_custom_op::total", mutates_args=())
def total(xs: list[Tensor], weight: float) -> tuple[Tensor, Tensor]:
    result = sum(xs) * weight
    return result, result.abs()


def _keep_length(ctx, inputs, output):
    ctx.length, ctx.weight = len(inputs[0]), inputs[1]
    ctx.save_for_backward(output[0])


total.register_autograd(
    lambda ctx, a, b: (
        [(a + b * ctx.saved_tensors[0].sign()) * ctx.weight] * ctx.length, None,
    ),
    setup_context=_keep_length,
)  # fmt: skip


@custom_op("test_custom_op::add_one_", mutates_args={"x"})
def add_one_(x: Tensor) -> None:
    x.add_(1)


X = flambeau.tensor([0.5, 1.0], dtype=F64)


def test_eager_calls_and_gradients():
    x = X.clone().requires_grad_()
    y = ops.test_custom_op.sine(x, 2.0)
    y.sum().backward()
    np.testing.assert_allclose(y.detach().numpy(), 2 * np.sin(X.numpy()))
    np.testing.assert_allclose(x.grad.numpy(), 2 * np.cos(X.numpy()))
    assert flambeau.autograd.gradcheck(lambda x: sine(x, 0.5), (x,))


def test_compiled_functions_call_numpy_kernels_when_they_run():
    @flambeau.compile
    def step(x):
        return (sine(x * 2) + 1).sum()

    for factor in (1, 2):
        x = (X * factor).requires_grad_()
        result = step(x)
        result.backward()
        np.testing.assert_allclose(result.item(), (np.sin(2 * x.detach().numpy()) + 1).sum())
        np.testing.assert_allclose(x.grad.numpy(), 2 * np.cos(2 * x.detach().numpy()))
    assert step.program_count == 1


def test_kernels_of_this_library_become_a_part_of_programs():
    calls = []

    @custom_op("test_custom_op::noted", mutates_args=())
    def noted(x: Tensor) -> Tensor:
        calls.append(None)
        return x * 2

    step = flambeau.compile(lambda x: noted(x) + 1)
    assert step(X).tolist() == [2.0, 3.0]
    assert step(X + 1).tolist() == [4.0, 5.0]


def test_vmap_of_kernels():
    rows = flambeau.stack([X, X + 1])
    flambeau.testing.assert_close(flambeau.func.vmap(sine)(rows), rows.sin())
    flambeau.testing.assert_close(flambeau.func.vmap(double)(rows), rows * 2)


def test_a_vmap_of_ones_own():
    seen = []

    @custom_op("test_custom_op::mapped", mutates_args=())
    def mapped(x: Tensor) -> Tensor:
        return flambeau.from_numpy(x.numpy() * 3)

    mapped.register_fake(lambda x: flambeau.empty_like(x))

    @mapped.register_vmap
    def _(info, in_dims, x):
        seen.append((info.batch_size, in_dims))
        return x * 3, in_dims[0]

    rows = flambeau.stack([X, X + 1])
    assert flambeau.func.vmap(mapped)(rows).equal(rows * 3)
    assert seen == [(2, (0,))]


def test_func_grad():
    gradient = flambeau.func.grad(lambda x: sine(x).sum())(X)
    flambeau.testing.assert_close(gradient, X.cos())


def test_lists_and_several_results():
    x, y = X.clone().requires_grad_(), X.clone().requires_grad_()
    first, second = total([x, y], 2.0)
    (first.sum() + second.sum()).backward()
    assert x.grad.tolist() == y.grad.tolist() == [4.0, 4.0]


def test_the_meta_device():
    assert sine(flambeau.empty(3, device="meta")).shape == (3,)
    assert double(flambeau.empty(3, device="meta")).is_meta


def test_writing_to_arguments():
    x = X.clone()
    version = x._version
    add_one_(x)
    assert x.equal(X + 1)
    assert x._version > version

    @flambeau.compile
    def step(x):
        add_one_(x)
        return x * 2

    y = X.clone()
    assert step(y).equal((X + 1) * 2)
    assert y.equal(X + 1)


def test_without_a_formula_backward_says_so():
    x = X.clone().requires_grad_()
    y = double(x)
    assert y.requires_grad
    with pytest.raises(RuntimeError, match="no autograd formula was registered"):
        y.sum().backward()


def test_a_numpy_kernel_without_fake_cannot_be_compiled():
    @custom_op("test_custom_op::only_numpy", mutates_args=())
    def only_numpy(x: Tensor) -> Tensor:
        return flambeau.from_numpy(np.sin(x.numpy()))

    with pytest.raises(RuntimeError, match="Register a fake implementation"):
        flambeau.compile(only_numpy, fullgraph=True)(X)


def test_a_fake_that_does_not_fit_is_told():
    @custom_op("test_custom_op::misfit", mutates_args=())
    def misfit(x: Tensor) -> Tensor:
        return flambeau.from_numpy(x.numpy()[:1])

    misfit.register_fake(lambda x: flambeau.empty_like(x))
    with pytest.raises(Exception, match="its fake implementation"):
        flambeau.compile(misfit)(X).tolist()
    with pytest.raises(RuntimeError, match="test_faketensor failed"):
        library.opcheck(misfit, (X,))


def test_results_must_not_be_arguments():
    @custom_op("test_custom_op::same", mutates_args=())
    def same(x: Tensor) -> Tensor:
        return x

    with pytest.raises(RuntimeError, match="may not alias any inputs"):
        same(X)


def test_opcheck():
    outcomes = library.opcheck(sine, (X.clone().requires_grad_(),))
    assert set(outcomes.values()) == {"SUCCESS"}

    @custom_op("test_custom_op::writes", mutates_args=())
    def writes(x: Tensor) -> Tensor:
        return x.add_(1).clone()

    found = library.opcheck(writes, (X.clone(),), test_utils="test_schema", raise_exception=False)
    assert "is written to" in found["test_schema"]


def test_libraries():
    lib = library.Library("test_library", "FRAGMENT")
    assert lib.define("scaled(Tensor x, *, float factor=2.0) -> Tensor") == "scaled"
    with pytest.raises(NotImplementedError, match="Could not run"):
        ops.test_library.scaled(X)
    lib.impl("scaled", lambda x, *, factor: x * factor)
    x = X.clone().requires_grad_()
    ops.test_library.scaled(x, factor=3.0).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]
    assert ops.test_library.scaled.default(X).equal(X * 2)
    for wrong in (lambda op: op(), lambda op: op(X, 3.0), lambda op: op(X, times=2)):
        with pytest.raises(RuntimeError, match="Declaration: test_library::scaled"):
            wrong(ops.test_library.scaled)
    lib._destroy()
    with pytest.raises(AttributeError):
        _ = ops.test_library


def test_operators_by_name():
    library.define("test_define::plus", "(Tensor x, Tensor y) -> Tensor")

    @library.impl("test_define::plus", ("cpu", "cuda"))
    def _(x, y):
        return x + y

    library.register_fake("test_define::plus", lambda x, y: flambeau.empty_like(x))
    library.register_autograd("test_define::plus", lambda ctx, grad: (grad, grad))
    x = X.clone().requires_grad_()
    ops.test_define.plus(x, X).sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]
    with pytest.raises(AttributeError, match="no attribute 'minus'"):
        ops.test_define.minus(X, X)


def test_what_is_registered_before_an_operator_is_defined():
    library.register_fake("test_later::half", lambda x: flambeau.empty_like(x))
    custom_op("test_later::half", lambda x: x / 2, mutates_args=(), schema="(Tensor x) -> Tensor")
    assert ops.test_later.half(flambeau.empty(2, device="meta")).shape == (2,)


def test_autocast():
    kinds = []

    @custom_op("test_custom_op::kind", mutates_args=())
    def kind(x: Tensor) -> Tensor:
        kinds.append(x.dtype)
        return x.clone()

    library.register_autocast(kind, "cpu", flambeau.bfloat16)
    with flambeau.autocast("cpu"):
        kind(flambeau.ones(1))
    kind(flambeau.ones(1))
    assert kinds == [flambeau.bfloat16, flambeau.float32]


def test_aten():
    x = flambeau.tensor([[1.0, 2.0]])
    assert ops.aten.add.Tensor(x, x).equal(x * 2)
    assert ops.aten.sum.dim_IntList(x, [1]).tolist() == [3.0]
    assert ops.aten._softmax.default(x, 1, False).equal(x.softmax(1))
    assert ops.aten.slice.Tensor(x, 1, 0, 1).tolist() == [[1.0]]
    assert ops.aten.index.Tensor(x, [None, flambeau.tensor([1])]).tolist() == [[2.0]]
    assert ops.aten._pin_memory.default(x) is x
    eye = flambeau.sparse_coo_tensor([[0, 1], [0, 1]], [1.0, 1.0], (2, 2))
    assert ops.aten._sparse_addmm.default(x.T, eye, x.T, beta=2).equal(x.T * 3)
    with pytest.raises(AttributeError, match="no function of flambeau has that name"):
        _ = ops.aten.no_such_operator


@pytest.mark.parametrize(
    ("make", "kind", "words"),
    [
        (
            lambda: custom_op("nothing", add_one_._init_fn, mutates_args=()),
            ValueError,
            "namespace::name",
        ),
        (
            lambda: library.infer_schema(lambda x: x, mutates_args=()),
            ValueError,
            "must have a type annotation",
        ),
        (lambda: library.Library("ns", "OTHER"), ValueError, "Unsupported kind"),
        (lambda: library.impl("ns::none", "cpu", abs), RuntimeError, "does not exist"),
        (lambda: add_one_.register_autograd(abs), RuntimeError, "non-functional operator"),
        (lambda: double(3.0), RuntimeError, "Expected a value of type 'Tensor'"),
        (lambda: library.define("a::b", "nonsense"), RuntimeError, "cannot read the schema"),
    ],
)
def test_mistakes_are_told(make, kind, words):
    with pytest.raises(kind, match=words):
        make()
