"""In compiled functions too, checkpointed parts are computed again rather than kept."""

import jax
import pytest

import flambeau
from flambeau import nn
from flambeau.compile.program import Program
from flambeau.core.programs.compiled import jitted
from flambeau.nn.functional import gelu
from flambeau.utils.checkpoint import checkpoint, checkpoint_sequential
from tests.compile.following import assert_close

WIDTH, BATCH = 16, 64


def through(function, *args, **kwargs):
    """What stands for `checkpoint` where there is none."""
    for name in ("use_reentrant", "preserve_rng_state"):
        kwargs.pop(name, None)
    return function(*args, **kwargs)


class Block(nn.Module):
    def __init__(self, width=WIDTH, p=0.0):
        super().__init__()
        self.grow, self.drop = nn.Linear(width, 4 * width), nn.Dropout(p)
        self.shrink = nn.Linear(4 * width, width)
        self.cell = nn.GRU(width, 2)

    def forward(self, x, scale=1.0):
        return self.shrink(self.drop(gelu(self.grow(x)))) * scale


@pytest.fixture
def programs(monkeypatch):
    """The programs that a test compiles."""
    made, init = [], Program.__init__

    def note(self, *args, **options):
        init(self, *args, **options)
        made.append(self)

    monkeypatch.setattr(Program, "__init__", note)
    return made


def temporary_memory(compiled, *arrays):
    specs = [jax.ShapeDtypeStruct(each.shape, each.dtype) for each in arrays]
    memory = jitted(compiled).lower(*specs).compile().memory_analysis()
    if memory is None:
        pytest.skip("this backend does not say what memory its programs take")
    return memory.temp_size_in_bytes


def memory_of(program, *args):
    """The temporary memory of a training step that takes tensors."""
    cells = [each.array for each in (*program.donated, *program.kept)]
    slots = [each.read() for each in program.reads[len(args) :]]
    return temporary_memory(program.executable, *cells, *(each.jax() for each in args), *slots)


# Functions of a block, an input and what stands for `checkpoint`; they give a tensor.


def one(block, x, save):
    return save(block, x, use_reentrant=False)


def several(block, x, save):
    for _ in range(3):
        x = x + save(block, x, use_reentrant=True, scale=0.5)
    return x


def nested(block, x, save):
    return save(lambda x: save(block, save(block, x.sin())).cos(), x).exp()


def sequential(block, x, save):
    layers = [block.grow, nn.GELU(), block.drop, block.shrink, nn.Tanh()]
    if save is through:
        return nn.Sequential(*layers)(x)
    return checkpoint_sequential(nn.Sequential(*layers), 3, x)


def of_a_closure(block, x, save):
    return save(lambda: block(x).exp())


def without_an_input_that_requires_grad(block, x, save):
    return save(block, x.detach())


def several_outputs(block, x, save):
    def function(pair, *, offset):
        first, second = pair
        return {"all": block(first) * second, "name": "block", "none": None}, (first + offset).exp()

    found, other = save(function, (x, x.cos()), offset=2)
    assert found["name"] == "block"
    assert found["none"] is None
    return found["all"] + other.mean()


def some_outputs_unused(block, x, save):
    return save(lambda x: (block(x), x.exp()), x)[0]


def what_the_region_leaves_behind(block, x, save):
    seen = []

    def function(x):
        seen.append(x.exp())
        return block(seen[0])

    return save(function, x) * seen[0].sin()


def written_in_place(block, x, save):
    def function(x):
        hidden = block.grow(x).exp()
        hidden[:, 0].mul_(2.0)
        hidden.tanh_()
        return block.shrink(hidden)

    return save(function, x).mul_(3.0)


def without_grad_in_part(block, x, save):
    def function(x):
        with flambeau.no_grad():
            scale = block(x).abs().mean()
        return block(x) / scale

    return save(function, x)


def a_gradient_inside(block, x, save):
    def function(x):
        (slope,) = flambeau.autograd.grad(block(x).square().sum(), x, create_graph=True)
        return slope.sin()

    return save(function, x)


def second_derivatives(block, x, save):
    y = save(lambda x: block(x).sin(), save(lambda x: block(x).exp(), x))
    (slope,) = flambeau.autograd.grad(y.sum(), x, create_graph=True)
    return slope.square() + y


def a_graph_run_twice(block, x, save):
    y = save(lambda x: block(x).sin(), x)
    (slope,) = flambeau.autograd.grad(y.sum(), x, retain_graph=True)
    return y * slope


def complex_numbers(block, x, save):
    return save(lambda x: (flambeau.complex(x, block(x)).exp() * 1j).tan(), x).abs()


def half_precision(block, x, save):
    def function(x):
        wide = nn.functional.linear(x.bfloat16(), block.grow.weight.bfloat16())
        return block.shrink(wide.sin().float())

    return save(function, x)


def under_a_transformation(block, x, save):
    weight = block.grow.weight[: x.shape[1]]
    return flambeau.func.vmap(lambda x: save(lambda x: (weight @ x).sin(), x))(x)


def a_transformation_inside(block, x, save):
    weight = block.grow.weight[: x.shape[1]]
    slope = flambeau.func.grad(lambda x: (weight @ x).sin().sum())
    return save(lambda x: flambeau.func.vmap(slope)(x.exp()).tanh(), x)


class Cube(flambeau.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        square = x * x
        ctx.save_for_backward(x, square)
        return x * square

    @staticmethod
    def backward(ctx, cotangent):
        _, square = ctx.saved_tensors
        assert flambeau.compiler.is_compiling()
        return cotangent * square * 3


def custom_function(block, x, save):
    return save(lambda x: Cube.apply(block(Cube.apply(x.sin()))), x)


def recurrent(block, x, save):
    def function(x):
        outputs, last = block.cell(x.sin())
        return outputs.exp() * last.sum()

    return save(function, x)


def hooked(block, x, save):
    with block.grow.register_forward_hook(lambda module, args, result: result.sin()):
        y = save(lambda x: block(x).cos(), x)
    y.register_hook(lambda grad: grad * 3)
    return y


FUNCTIONS = [
    one, several, nested, sequential, of_a_closure, without_an_input_that_requires_grad,
    several_outputs, some_outputs_unused, what_the_region_leaves_behind, written_in_place,
    without_grad_in_part, a_gradient_inside, second_derivatives, a_graph_run_twice, complex_numbers,
    half_precision, under_a_transformation, a_transformation_inside, custom_function, recurrent,
    hooked,
]  # fmt: skip
DRAWING = {one, nested, sequential}
WHOLE = [one, of_a_closure, written_in_place, half_precision, custom_function, recurrent, hooked]


def block_and_input(function):
    flambeau.manual_seed(0)
    width = 4 if function is a_gradient_inside else WIDTH
    block = Block(width, 0.5 if function in DRAWING else 0.0)
    if function is hooked:
        block.shrink.register_full_backward_hook(lambda module, before, after: (before[0] * 2,))
    x = flambeau.linspace(-1.0, 1.0, 3 * width).reshape(3, width).requires_grad_()
    return block, x


def outcome(function, save, backward_inside):
    """Loss and gradients of two calls, and a number drawn after them."""
    block, x = block_and_input(function)

    def loss(x):
        return function(block, x, save).square().sum()

    def step(x):
        found = loss(x)
        found.backward()
        return found

    losses = []
    compiled = flambeau.compile(step if backward_inside else loss)
    for _ in range(2):
        losses.append(compiled(x))
        if not backward_inside:
            losses[-1].backward()
    draw = flambeau.compile(lambda: flambeau.rand(3))
    grads = [each.grad for each in (x, *block.parameters()) if each.grad is not None]
    return [*losses, *grads, draw()]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda each: each.__name__)
def test_values_gradients_and_random_numbers_are_those_without_it(function, programs):
    expected = outcome(function, through, True)
    found = outcome(function, checkpoint, True)
    # Each first call finds no gradients, each second call some.
    assert len(programs) == 2 * (2 + 1)
    assert_close(found, expected, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("function", [nested, several_outputs, what_the_region_leaves_behind])
def test_backward_may_stand_outside(function, programs):
    expected = outcome(function, through, False)
    found = outcome(function, checkpoint, False)
    assert len(programs) == 2 * (2 + 1)
    assert_close(found, expected, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("function", WHOLE, ids=lambda each: each.__name__)
def test_nothing_but_inputs_is_kept_for_a_backward_outside(function):
    block, x = block_and_input(function)
    for save in (through, checkpoint):
        compiled = flambeau.compile(lambda x, save=save: function(block, x, save).sum())
        kept = compiled(x).grad_fn.residuals
        assert bool(kept) == (save is through)


def step_of(blocks, save):
    def step(x):
        for each in blocks:
            x = save(each, x)
        loss = x.square().mean()
        loss.backward()
        return loss

    return step


def test_a_compiled_step_takes_less_memory(programs):
    blocks = [Block(p=0.5) for _ in range(6)]
    x = flambeau.ones(BATCH, WIDTH)
    memory = []
    for save in (through, checkpoint):
        flambeau.compile(step_of(blocks, save))(x)
        memory.append(memory_of(programs[-1], x))
    kept = BATCH * WIDTH * 4 * len(blocks)
    assert memory[0] > 7 * kept
    assert memory[1] < memory[0] / 2
    assert memory[1] < 5 * kept


def test_terms_of_a_loss_take_less_memory(programs):
    blocks = [Block() for _ in range(6)]
    x = flambeau.ones(BATCH, WIDTH)

    def step(x, save):
        loss = sum(save(lambda block: block(x).tanh().sum(), each) for each in blocks)
        loss.backward()
        return loss

    memory = []
    for save in (through, checkpoint):
        flambeau.compile(step)(x, save)
        memory.append(memory_of(programs[-1], x))
    assert memory[1] < memory[0] / 2


def test_nested_regions_take_less_again(programs):
    weight = flambeau.eye(WIDTH).requires_grad_()
    x = flambeau.ones(BATCH, WIDTH)

    def five(x):
        for _ in range(5):
            x = checkpoint(lambda x: (x @ weight).sin().exp(), x)
        return x

    def step(x, around):
        for _ in range(5):
            x = around(five, x)
        loss = x.square().mean()
        loss.backward()
        return loss

    memory = []
    for around in (through, checkpoint):
        flambeau.compile(step)(x, around)
        memory.append(memory_of(programs[-1], x))
    assert memory[1] < 0.7 * memory[0]


def test_buffers_are_written_once():
    found = []
    for save in (through, checkpoint):
        flambeau.manual_seed(0)
        norm = nn.BatchNorm1d(WIDTH)
        step = flambeau.compile(step_of([norm, nn.Tanh(), norm], save))
        x = flambeau.linspace(-1.0, 3.0, 3 * WIDTH).reshape(3, WIDTH)
        step(x)
        step(x)
        step(x)
        assert norm.num_batches_tracked.item() == 3 * 2
        found.append([norm.running_mean, norm.running_var, norm.weight.grad])
    assert_close(*found, rtol=1e-5)


def test_of_the_two_contexts_only_the_first_is_entered():
    class Context:
        entered = 0

        def __enter__(self):
            self.entered += 1

        def __exit__(self, *exception):
            pass

    first, again = Context(), Context()
    x = flambeau.ones(2, requires_grad=True)

    def step():
        y = checkpoint(lambda x: x.sin().exp(), x, context_fn=lambda: (first, again))
        y.sum().backward()

    compiled = flambeau.compile(step, fullgraph=True)
    for _ in range(4):
        compiled()
    # The first call ran eagerly.
    assert (first.entered, again.entered) == (4, 1)


def test_without_grad_nothing_is_recorded():
    block = Block()
    x = flambeau.ones(3, WIDTH)

    @flambeau.compile
    def evaluate(x):
        with flambeau.no_grad():
            return checkpoint(block, x)

    assert not evaluate(x).requires_grad
    assert flambeau.allclose(evaluate(x), block(x), rtol=1e-5, atol=1e-6)


def test_functions_that_jax_transforms_inside():
    def slope(array):
        x = flambeau.asarray(array).requires_grad_()
        y = checkpoint(lambda x: x.sin().exp(), x)
        (found,) = flambeau.autograd.grad(y, x)
        return found.jax()

    @flambeau.compile
    def slopes(x):
        return [
            flambeau.asarray(each)
            for each in (
                jax.vmap(slope)(x.jax()),
                jax.vmap(jax.grad(slope))(x.jax()),
                jax.lax.map(slope, x.jax()),
            )
        ]

    x = flambeau.tensor([0.25, 0.5])
    first = x.cos() * x.sin().exp()
    second = (x.cos() ** 2 - x.sin()) * x.sin().exp()
    for found, expected in zip(slopes(x), (first, second, first), strict=True):
        assert flambeau.allclose(found, expected, rtol=1e-5)


def test_second_derivatives_outside():
    x = flambeau.tensor([0.5], requires_grad=True)
    compiled = flambeau.compile(lambda x: checkpoint(lambda x: (x * x).sin() * x, x))
    (slope,) = flambeau.autograd.grad(compiled(x), x, create_graph=True)
    (curvature,) = flambeau.autograd.grad(slope, x)
    square = flambeau.tensor(0.25)
    expected = 6 * 0.5 * square.cos() - 4 * 0.125 * square.sin()
    assert curvature.item() == pytest.approx(expected.item(), rel=1e-5)


def test_values_that_are_not_finite_come_through():
    x = flambeau.tensor([float("nan"), float("inf"), 1.0], requires_grad=True)

    @flambeau.compile
    def step(x):
        checkpoint(lambda x: (x * x) * 2.0, x).backward(x)

    step(x)
    assert x.grad.isnan().tolist() == [True, False, False]
    assert x.grad.tolist()[1:] == [float("inf"), 4.0]


@pytest.mark.parametrize("written", ["input", "argument"])
def test_an_input_that_is_written_afterwards_is_recomputed_from_what_it_was(written):
    def gradients(compiled):
        weight = flambeau.tensor([1.0, 2.0], requires_grad=True)

        def step(x):
            weight.grad = None
            hidden = x * 2
            y = checkpoint(lambda each: (each * weight).sin() * each, hidden)
            (hidden if written == "input" else x).mul_(10)
            y.sum().backward()
            return weight.grad

        run = flambeau.compile(step) if compiled else step
        return [run(flambeau.tensor([0.3 + i, 0.5])).tolist() for i in range(3)]

    assert gradients(True) == [pytest.approx(each) for each in gradients(False)]


def test_a_weight_that_is_written_afterwards_counts_as_it_was_in_the_forward():
    weight = flambeau.tensor([1.0, 2.0], requires_grad=True)
    x = flambeau.tensor([0.6, 1.0])

    @flambeau.compile
    def step(x):
        y = checkpoint(lambda each: (each * weight).sin(), x)
        with flambeau.no_grad():
            weight.add_(1)
        y.sum().backward()

    step(x)
    expected = (flambeau.cos(x * flambeau.tensor([1.0, 2.0])) * x).tolist()
    assert weight.grad.tolist() == pytest.approx(expected)
