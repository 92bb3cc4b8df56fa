"""`autocast`: what it reaches, where it ends, and what it leaves alone."""

import threading

import pytest

import flambeau
from flambeau import amp, nn
from flambeau.autograd import Function
from flambeau.nn import functional as F

HALF, SINGLE = flambeau.bfloat16, flambeau.float32


@pytest.fixture
def x():
    return flambeau.arange(6.0).reshape(2, 3)


def test_products_are_in_half_and_the_rest_follows(x):
    with flambeau.autocast("cpu"):
        product = x @ x.T
        assert product.dtype is HALF
        assert F.relu(product).dtype is HALF
        assert (product + x[:, :2]).dtype is SINGLE
        assert F.mse_loss(product, product).dtype is SINGLE
        assert product.sum().dtype is HALF
    assert (x @ x.T).dtype is SINGLE


def test_doubles_integers_and_meta_tensors(x):
    with flambeau.autocast("cpu"):
        assert (x.double() @ x.double().T).dtype is flambeau.float64
        assert (x.long() @ x.long().T).dtype is flambeau.int64
        assert (x.half() @ x.half().T).dtype is HALF
        assert (x.to("meta") @ x.to("meta").T).dtype is SINGLE


def test_parameters_stay_and_get_gradients_of_their_own_dtype(x):
    layer = nn.Linear(3, 2)
    weight = layer.weight.detach().clone()
    with flambeau.autocast("cpu"):
        result = layer(x)
    assert result.dtype is HALF
    result.float().sum().backward()
    assert layer.weight.grad.dtype is SINGLE
    assert layer.weight.grad.tolist() == [[3.0, 5.0, 7.0]] * 2
    assert flambeau.equal(layer.weight, weight)


def test_a_changed_parameter_is_seen_inside_one_block(x):
    weight = nn.Parameter(flambeau.ones(2, 3))
    with flambeau.autocast("cpu"):
        before = F.linear(x, weight)
        with flambeau.no_grad():
            weight.mul_(2)
        assert F.linear(x, weight).tolist() == (2 * before).tolist()


def test_blocks_nest_and_end_where_an_error_is_raised(x):
    with flambeau.autocast("cpu"):
        with flambeau.autocast("cpu", enabled=False):
            assert not flambeau.is_autocast_enabled("cpu")
            assert (x @ x.T).dtype is SINGLE
        with flambeau.autocast("cpu", dtype=flambeau.float16):
            assert flambeau.get_autocast_dtype("cpu") is flambeau.float16
            assert (x @ x.T).dtype is flambeau.float16
        assert (x @ x.T).dtype is HALF
    with pytest.raises(ZeroDivisionError), flambeau.autocast("cpu"):
        1 / 0  # noqa: B018
    assert not flambeau.is_autocast_enabled("cpu")


def test_one_manager_serves_several_times_and_as_a_decorator(x):
    mode = flambeau.autocast("cpu")
    with mode, mode:
        assert flambeau.is_autocast_enabled("cpu")
    assert not flambeau.is_autocast_enabled("cpu")

    @mode
    def product(a):
        return a @ a.T

    assert product(x).dtype is HALF
    assert not flambeau.is_autocast_enabled("cpu")


def test_other_threads_are_not_concerned(x):
    found = []
    with flambeau.autocast("cpu"):
        thread = threading.Thread(target=lambda: found.append((x @ x.T).dtype))
        thread.start()
        thread.join()
    assert found == [SINGLE]


@pytest.mark.parametrize(
    "layer",
    [
        nn.LSTM(3, 4), nn.GRU(3, 4), nn.RNN(3, 4), nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4)),
        nn.TransformerEncoderLayer(3, 1, 4),
    ],
    ids=lambda layer: type(layer).__name__,
)  # fmt: skip
def test_layers_take_what_the_ones_before_give(layer, x):
    x = flambeau.stack([x, x])
    with flambeau.autocast("cpu"):
        results = [layer(x), layer(x.bfloat16())]
    for result in results:
        result = result[0] if isinstance(result, tuple) else result
        result.float().sum().backward()
    assert all(each.grad.dtype is SINGLE for each in layer.parameters())


def test_inside_and_around_a_compiled_function(x):
    layer = nn.Linear(3, 2)

    def step(x):
        with flambeau.autocast("cpu"):
            result = layer(x)
            loss = F.mse_loss(result, result.detach() + 1)
        loss.backward()
        return result, loss

    eager, _ = step(x)
    gradient = layer.weight.grad.clone()
    layer.weight.grad = None
    compiled = flambeau.compile(step)
    result, loss_compiled = compiled(x)
    assert (result.dtype, loss_compiled.dtype) == (HALF, SINGLE)
    assert flambeau.allclose(result.float(), eager.float(), rtol=0.02, atol=0.02)
    assert flambeau.allclose(layer.weight.grad, gradient, rtol=0.02, atol=0.02)

    product = flambeau.compile(lambda x: x @ x.T)
    for _ in range(2):
        assert product(x).dtype is SINGLE
        with flambeau.autocast("cpu"):
            assert product(x).dtype is HALF
        with flambeau.autocast("cpu", dtype=flambeau.float16):
            assert product(x).dtype is flambeau.float16
    assert product.program_count == 3


def test_transformations_of_functions(x):
    def loss(weight):
        with flambeau.autocast("cpu"):
            return F.linear(x, weight).float().sum()

    gradient = flambeau.func.grad(loss)(flambeau.ones(2, 3))
    assert gradient.dtype is SINGLE
    assert gradient.tolist() == [[3.0, 5.0, 7.0]] * 2


class Product(Function):
    seen: list = []  # noqa: RUF012

    @staticmethod
    @amp.custom_fwd(device_type="cpu")
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a @ b

    @staticmethod
    @amp.custom_bwd(device_type="cpu")
    def backward(ctx, grad):
        a, b = ctx.saved_tensors
        Product.seen.append((flambeau.is_autocast_enabled("cpu"), (grad @ b.T).dtype))
        return (grad @ b.T).to(a.dtype), (a.T @ grad).to(b.dtype)


class InSingle(Function):
    @staticmethod
    @amp.custom_fwd(device_type="cpu", cast_inputs=flambeau.float32)
    def forward(ctx, a):
        assert not flambeau.is_autocast_enabled("cpu")
        ctx.dtype = a.dtype
        return a @ a.T

    @staticmethod
    @amp.custom_bwd(device_type="cpu")
    def backward(ctx, grad):
        assert not flambeau.is_autocast_enabled("cpu")
        return grad.sum() * flambeau.ones(2, 3)


def test_functions_of_ones_own(x):
    a = x.clone().requires_grad_()
    with flambeau.autocast("cpu"):
        result = Product.apply(a, x.T)
    assert result.dtype is HALF
    result.sum().backward()
    assert Product.seen == [(True, HALF)]
    assert a.grad.dtype is SINGLE
    half = x.bfloat16().requires_grad_()
    with flambeau.autocast("cpu"):
        assert InSingle.apply(half).dtype is SINGLE
    assert Product.apply(a, x.T).dtype is SINGLE


def test_what_cannot_be_is_refused_or_does_nothing(x):
    with pytest.raises(ValueError, match="device_type is a str, got int"):
        flambeau.autocast(3)
    with pytest.raises(RuntimeError, match="no device_type 'abacus'; there are 'cpu', 'cuda'"):
        flambeau.autocast("abacus")
    for options in ({"device_type": "tpu"}, {"device_type": "cpu", "dtype": flambeau.float32}):
        with pytest.warns(UserWarning, match="autocast does nothing: "):
            mode = flambeau.autocast(**options)
        with mode:
            assert (x @ x.T).dtype is SINGLE
    assert amp.is_autocast_available("cpu")
    assert not amp.is_autocast_available("abacus")


@pytest.mark.parametrize("where", ["hpu", "mps", "xla", "xpu"])
def test_devices_that_are_never_here_may_be_asked_about(where):
    assert not flambeau.is_autocast_enabled(where)
    assert not amp.is_autocast_available(where)
    assert flambeau.get_autocast_dtype(where) in (flambeau.bfloat16, flambeau.float16)
    with pytest.warns(UserWarning, match=f"no device of type '{where}' here"):
        flambeau.autocast(where)


def test_the_defaults_can_be_set(x):
    assert flambeau.get_autocast_dtype("cuda") is flambeau.float16
    flambeau.set_autocast_dtype("cpu", flambeau.float16)
    try:
        with flambeau.autocast("cpu"):
            assert (x @ x.T).dtype is flambeau.float16
            flambeau.set_autocast_dtype("cpu", HALF)
            assert (x @ x.T).dtype is HALF
    finally:
        flambeau.set_autocast_dtype("cpu", HALF)
    flambeau.set_autocast_enabled("cpu", True)
    try:
        assert (x @ x.T).dtype is HALF
    finally:
        flambeau.set_autocast_enabled("cpu", False)
    assert not flambeau.is_autocast_enabled()
    assert flambeau.is_autocast_cache_enabled()
