"""Training, devices, checkpoints and random numbers on an accelerator."""

import copy
import gc
import io
import sys

import numpy as np
import pytest

import flambeau
from flambeau import nn
from flambeau.nn import functional as F


def perceptron():
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.BatchNorm1d(32), nn.Linear(32, 4))


def batch(device):
    flambeau.manual_seed(7)
    inputs, targets = flambeau.randn(8, 16), flambeau.randint(4, (8,))
    return inputs.to(device), targets.to(device)


OPTIMIZERS = {
    "SGD": lambda p: flambeau.optim.SGD(p, 0.1, momentum=0.9, weight_decay=0.01),
    "Adam": lambda p: flambeau.optim.Adam(p, 0.01),
    "AdamW": lambda p: flambeau.optim.AdamW(p, 0.01, amsgrad=True),
    "RMSprop": lambda p: flambeau.optim.RMSprop(p, 0.01),
    "Adagrad": lambda p: flambeau.optim.Adagrad(p, 0.01),
    "NAdam": lambda p: flambeau.optim.NAdam(p, 0.01),
    "Adafactor": lambda p: flambeau.optim.Adafactor(p, 0.01),
    "LBFGS": lambda p: flambeau.optim.LBFGS(p, 0.1, max_iter=3),
}


def trained(device, optimizer_of, compiles, steps=4):
    """The losses and the state dict after some steps, on the CPU."""
    flambeau.manual_seed(0)
    model = perceptron().to(device)
    optimizer = optimizer_of(model.parameters())
    inputs, targets = batch(device)

    def closure():
        optimizer.zero_grad()
        loss = F.cross_entropy(model(inputs), targets)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        return loss

    def step():
        return optimizer.step(closure).detach()

    step = flambeau.compile(step) if compiles else step
    losses = [step().to("cpu:0") for _ in range(steps)]
    assert all(each.device.type == flambeau.device(device).type for each in model.parameters())
    return losses, {name: each.to("cpu:0") for name, each in model.state_dict().items()}


@pytest.mark.parametrize("compiles", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_training_gives_the_cpus_losses(accelerator, name, compiles):
    if name == "LBFGS" and compiles:
        pytest.skip("LBFGS asks for numbers, so its step is not one program")
    found = trained(accelerator, OPTIMIZERS[name], compiles)
    expected = trained("cpu", OPTIMIZERS[name], False)
    # LBFGS divides by small differences of gradients.
    rtol, atol = (2e-2, 2e-3) if name == "LBFGS" else (2e-3, 2e-4)
    flambeau.testing.assert_close(found, expected, rtol=rtol, atol=atol)


def test_modules_move_and_keep_their_parameters(accelerator):
    model = perceptron()
    parameters = list(model.parameters())
    optimizer = flambeau.optim.Adam(model.parameters())
    assert model.to(accelerator) is model
    assert [*map(id, model.parameters())] == [*map(id, parameters)]
    assert {each.device.type for each in model.state_dict().values()} == {accelerator.type}
    inputs, targets = batch(accelerator)
    F.cross_entropy(model(inputs), targets).backward()
    optimizer.step()
    model.cpu()
    assert {each.grad.device.type for each in parameters} == {"cpu"}
    assert not any(each.device.type != "cpu" for each in model.buffers())


def test_tensors_of_two_devices_do_not_mix(accelerator):
    here, elsewhere = flambeau.ones(2, 3, device=accelerator), flambeau.ones(3, 2)
    for mixed in (
        lambda: here @ elsewhere,
        lambda: here + elsewhere.mT,
        lambda: flambeau.cat([here, elsewhere.mT]),
        lambda: nn.Linear(3, 2)(here),
        lambda: F.linear(elsewhere.mT, here),
    ):
        with pytest.raises(RuntimeError, match="to be on the same device"):
            mixed()
    with pytest.raises(RuntimeError, match="to be on the same device"):
        flambeau.compile(lambda: here @ elsewhere, fullgraph=True)()
    # A tensor of one number goes along, as in PyTorch.
    assert (here * flambeau.tensor(2.0)).device == here.device
    here[:] = flambeau.zeros(2, 3)
    assert here.sum() == 0
    assert here.device.type == accelerator.type


NUMBERS = {
    "mul": lambda x, number: x * number,
    "the number first": lambda x, number: number / x,
    "pow": lambda x, number: x**number,
    "where": lambda x, number: flambeau.where(x > 0, x, number),
    "lerp": lambda x, number: flambeau.lerp(x, x * 2, number),
    "clamp": lambda x, number: x.clamp(max=number),
    "in place": lambda x, number: (x + 1).mul_(number),
    "assigned": lambda x, number: flambeau.stack([x, x]).index_fill(0, flambeau.tensor(0).to(
        x.device), number),
    "a loss": lambda x, number: F.mse_loss(x, x.detach() + 1) * number,
    "vmap": lambda x, number: flambeau.func.vmap(lambda row: row * number)(x),
    "compiled": flambeau.compile(lambda x, number: (x * number).cos()),
}  # fmt: skip


@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_on_the_cpu_goes_along(accelerator, name):
    function, found = NUMBERS[name], []
    for device in ("cpu", accelerator):
        x = flambeau.arange(1.0, 7.0).reshape(2, 3).to(device).requires_grad_()
        result = function(x, flambeau.tensor(2.0))
        result.sum().backward()
        assert result.device == x.grad.device == x.device
        found.append([result.detach().to("cpu:0"), x.grad.to("cpu:0")])
    flambeau.testing.assert_close(found[1], found[0], rtol=1e-4, atol=1e-5)


def test_the_gradient_of_a_number_comes_back_to_the_cpu(accelerator):
    number = flambeau.tensor(2.0, requires_grad=True)
    x = flambeau.ones(3, device=accelerator)
    (x * number).sum().backward()
    assert number.grad.device == number.device
    assert number.grad == 3
    assert flambeau.func.grad(lambda x: (x * number.detach()).sum())(x).tolist() == [2, 2, 2]
    rate = flambeau.tensor(0.1)
    parameter = nn.Parameter(flambeau.ones(3, device=accelerator))
    optimizer = flambeau.optim.SGD([parameter], rate)
    parameter.sum().backward()
    optimizer.step()
    flambeau.testing.assert_close(parameter.detach(), x - 0.1)
    with pytest.raises(RuntimeError, match="to be on the same device"):
        flambeau.ones(3) * flambeau.tensor(2.0, device=accelerator) * x


def test_where_a_tensor_is(real_accelerator):
    accelerator = real_accelerator
    x = flambeau.ones(2, device=accelerator)
    assert (x.device.type, x.device.index, x.get_device()) == (accelerator.type, 0, 0)
    assert x.is_cuda == (accelerator.type == "cuda")
    assert f"device='{accelerator.type}:0'" in repr(x)
    assert x.to(accelerator) is x
    assert x.to("cpu:0").device == flambeau.device("cpu")
    assert x.sum().item() == 2
    assert x.new_zeros(1).device == flambeau.zeros_like(x).device == x.device
    with pytest.raises(TypeError, match=r"convert .* device type tensor to numpy"):
        x.numpy()
    with pytest.raises(RuntimeError, match="is not available"):
        flambeau.ones(1, device=f"{accelerator.type}:99")


def test_the_default_device(accelerator):
    with accelerator:
        assert flambeau.ones(1).device.type == accelerator.type
        layer = nn.Linear(2, 2)
        assert flambeau.arange(3).device == flambeau.rand(1).device == layer.weight.device
    flambeau.set_default_device(accelerator)
    try:
        assert flambeau.tensor([1.0]).device.type == accelerator.type
        inside = flambeau.compile(lambda: flambeau.zeros(3) + 1)
        assert inside().device.type == accelerator.type
    finally:
        flambeau.set_default_device(None)
    assert flambeau.ones(1).device.type == "cpu"
    assert inside().device.type == "cpu"


def test_meta_modules_get_memory_there(accelerator):
    with flambeau.device("meta"):
        model = perceptron()
    model.to_empty(device=accelerator)
    model.load_state_dict(perceptron().state_dict())
    assert model(batch(accelerator)[0]).device.type == accelerator.type
    with accelerator:
        lazy = nn.LazyLinear(3)
    assert lazy(batch(accelerator)[0]).device.type == accelerator.type


def test_checkpoints_are_loaded_anywhere(accelerator):
    state = perceptron().to(accelerator).state_dict()
    file = io.BytesIO()
    flambeau.save(state, file)
    for where in (None, "cpu", accelerator):
        file.seek(0)
        found = flambeau.load(file, map_location=where)
        for name, each in found.items():
            assert each.device.type == flambeau.device(where or "cpu").type
            flambeau.testing.assert_close(each.to("cpu:0"), state[name].to("cpu:0"))


def test_random_numbers_can_be_repeated(accelerator):
    def draws():
        with accelerator:
            return [flambeau.rand(4), flambeau.randn(4), flambeau.randperm(5),
                    F.dropout(flambeau.ones(9))]  # fmt: skip

    flambeau.manual_seed(3)
    first = draws()
    flambeau.manual_seed(3)
    flambeau.testing.assert_close(draws(), first)
    generator = flambeau.Generator(accelerator)
    generator.manual_seed(5)
    one = flambeau.randn(4, generator=generator, device=accelerator)
    state = generator.get_state()
    two = flambeau.randn(4, generator=generator, device=accelerator)
    assert not flambeau.equal(one, two)
    generator.set_state(state)
    assert flambeau.equal(flambeau.randn(4, generator=generator, device=accelerator), two)
    before = flambeau.get_rng_state()
    with flambeau.random.fork_rng():
        draws()
    assert flambeau.equal(flambeau.get_rng_state(), before)


@pytest.mark.parametrize("dtype", [flambeau.bfloat16, flambeau.float16])
@pytest.mark.parametrize("compiles", [False, True], ids=["eager", "compiled"])
def test_mixed_precision(accelerator, dtype, compiles):
    flambeau.manual_seed(0)
    model = perceptron().to(accelerator)
    optimizer = flambeau.optim.SGD(model.parameters(), 0.1)
    scaler = flambeau.GradScaler(accelerator.type, enabled=dtype == flambeau.float16)
    inputs, targets = batch(accelerator)

    def forward():
        with flambeau.autocast(accelerator.type, dtype=dtype):
            scores = model(inputs)
            return scores.dtype, F.cross_entropy(scores, targets)

    forward = flambeau.compile(forward) if compiles else forward
    losses = []
    for _ in range(5):
        optimizer.zero_grad()
        found, loss = forward()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
        assert found is dtype
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    assert np.isfinite(losses).all()


@pytest.mark.parametrize("dtype", [flambeau.float32, flambeau.bfloat16])
@pytest.mark.parametrize("causal", [False, True])
def test_attention(accelerator, dtype, causal):
    flambeau.manual_seed(0)
    arguments = [flambeau.randn(2, 4, 64, 32) for _ in range(3)]
    attention = F.scaled_dot_product_attention

    def run(device, dtype, compiles):
        leaves = [each.to(device, dtype).detach().requires_grad_() for each in arguments]
        call = flambeau.compile(attention) if compiles else attention
        output = call(*leaves, is_causal=causal)
        output.square().sum().backward()
        return [each.float().to("cpu:0").detach() for each in (output, *(x.grad for x in leaves))]

    expected = run("cpu", flambeau.float32, False)
    tolerance = 1e-4 if dtype is flambeau.float32 else 0.1
    for compiles in (False, True):
        found = run(accelerator, dtype, compiles)
        flambeau.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)


def test_memory_is_given_back(real_accelerator):
    accelerator = real_accelerator
    flambeau.accelerator.synchronize()
    before = flambeau.accelerator.memory_allocated()
    kept = flambeau.ones(1024, 1024, device=accelerator)
    assert flambeau.accelerator.memory_allocated() > before + (3 << 20)
    del kept
    assert flambeau.accelerator.memory_allocated() < before + (1 << 20)


def test_too_much_memory_is_the_error_that_scripts_catch(real_accelerator):
    accelerator = real_accelerator
    _, total = flambeau.accelerator.get_memory_info()
    with pytest.raises(flambeau.OutOfMemoryError, match="out of memory"):
        # The device may find out after the call.
        flambeau.ones(total, device=accelerator).sum().item()
    assert flambeau.ones(3, device=accelerator).sum() == 3


def test_saved_tensors_may_wait_on_the_cpu(accelerator):
    x = flambeau.randn(4, 4, device=accelerator, requires_grad=True)
    with flambeau.autograd.graph.save_on_cpu():
        y = (x.exp() * x).sum()
    y.backward()
    flambeau.testing.assert_close(x.grad, (x.exp() * (x + 1)).detach())


def test_activations_may_be_computed_again(accelerator):
    from flambeau.utils.checkpoint import checkpoint

    layer = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)).to(accelerator)
    x = flambeau.randn(3, 4, device=accelerator, requires_grad=True)
    flambeau.manual_seed(2)
    layer(x).sum().backward()
    expected, x.grad = x.grad, None
    flambeau.manual_seed(2)
    checkpoint(layer, x, use_reentrant=False).sum().backward()
    flambeau.testing.assert_close(x.grad, expected)


def test_a_compiled_step_takes_batches_of_a_loader(accelerator):
    data = flambeau.utils.data.TensorDataset(flambeau.randn(12, 16), flambeau.randint(4, (12,)))
    loader = flambeau.utils.data.DataLoader(data, 4, pin_memory=True)
    model = perceptron().to(accelerator)
    optimizer = flambeau.optim.AdamW(model.parameters())

    @flambeau.compile
    def step(inputs, targets):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(inputs), targets)
        loss.backward()
        optimizer.step()
        return loss.detach()

    losses = [
        step(*(each.to(accelerator, non_blocking=True) for each in pair)).item()
        for _ in range(6)
        for pair in loader
    ]
    assert step.program_count <= 2
    assert losses[-1] < losses[0]


def test_a_compiled_function_may_use_both_devices(accelerator):
    weight = flambeau.randn(3, 3, device=accelerator)

    def function(x, factor):
        y = x.to(weight.device) @ weight * factor
        return y, y.to("cpu:0"), x

    x, factor = flambeau.randn(2, 3), flambeau.tensor(2.0)
    expected = function(x, factor)
    compiled = flambeau.compile(function)
    for _ in range(2):
        found = compiled(x, factor)
        assert [each.device for each in found] == [each.device for each in expected]
        assert found[2] is x
        flambeau.testing.assert_close(found[:2], expected[:2], rtol=1e-4, atol=1e-5)
    assert compiled.program_count == 1
    moved = compiled(x.to(accelerator), factor.to(accelerator))
    flambeau.testing.assert_close(moved[:2], expected[:2], rtol=1e-4, atol=1e-5)


def test_an_interrupt_loses_nothing_while_results_are_moved(accelerator):
    weight, inputs = flambeau.zeros(3, device=accelerator), flambeau.ones(3)

    @flambeau.compile
    def step(x):
        weight.add_(x.to(accelerator))
        return weight.sum().to("cpu:0")

    def interrupted_at(moment):
        """The result of a step, or ``None`` if it is interrupted at an event in our own code."""
        left = moment

        def interrupt(frame, event, argument):
            nonlocal left
            left -= "flambeau/" in frame.f_code.co_filename
            if left < 0:
                sys.settrace(None)
                raise KeyboardInterrupt
            return interrupt

        sys.settrace(interrupt)
        try:
            return step(inputs)
        except KeyboardInterrupt:
            return None
        finally:
            sys.settrace(None)

    moment = 0
    while True:
        # An error's frames hold arrays, which a program then does not overwrite.
        gc.collect(0)
        before = step(inputs).item()
        result = interrupted_at(moment)
        assert weight.sum().item() in (before, before + 3)
        if result is not None:
            break
        moment += 1
    assert (result.item(), result.device.type) == (before + 3, "cpu")
    assert moment > 30


def test_a_compiled_function_computes_on_one_device(accelerator):
    weight = flambeau.randn(3, 3, device=accelerator)
    count = flambeau.zeros(())

    def computes_on_both(x):
        return (x * 2).to(accelerator) @ weight

    def counts(x):
        count.add_(1)
        return x.to(accelerator) @ weight

    def goes_on_elsewhere(x):
        return (x.to(accelerator) @ weight).to("cpu:0") + 1

    x = flambeau.randn(2, 3)
    for function, text in (
        (computes_on_both, "one program runs on one device"),
        (counts, r"writes to a tensor of shape \[\] on cpu"),
        (goes_on_elsewhere, "moves a tensor to cpu"),
    ):
        with pytest.raises(flambeau.CompileError, match=text):
            flambeau.compile(function, fullgraph=True)(x)
        count.zero_()
        eagerly = flambeau.compile(function)
        with pytest.warns(UserWarning, match="eager"):
            found = eagerly(x)
        count.zero_()
        flambeau.testing.assert_close(found, function(x))


def test_copies_stay_on_their_device(accelerator):
    model = perceptron().to(accelerator)
    twin = copy.deepcopy(model)
    assert {each.device.type for each in twin.parameters()} == {accelerator.type}
    twin.double()
    twin.half()
    assert twin[0].weight.dtype is flambeau.float16
    assert twin[0].weight.device == model[0].weight.device


def test_hooks_and_custom_functions(accelerator):
    class Square(flambeau.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, gradient):
            (x,) = ctx.saved_tensors
            return 2 * x * gradient

    seen = []
    layer = nn.Linear(3, 3).to(accelerator)
    layer.register_full_backward_hook(lambda module, inward, outward: seen.append(outward[0]))
    x = flambeau.randn(2, 3, device=accelerator, requires_grad=True)
    x.register_hook(lambda gradient: seen.append(gradient))
    Square.apply(layer(x)).sum().backward()
    assert {each.device.type for each in (*seen, x.grad)} == {accelerator.type}


def test_dlpack_goes_both_ways(accelerator):
    x = flambeau.arange(6.0, device=accelerator)
    assert flambeau.equal(flambeau.from_dlpack(x), x)
    assert flambeau.from_dlpack(x).device == x.device
