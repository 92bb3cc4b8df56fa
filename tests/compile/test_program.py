"""Cells come in and go out: what a compiled function reads, writes, returns and leaves behind."""

import warnings
import weakref

import jax
import pytest

import flambeau
from flambeau import nn
from flambeau.compile import CompileError
from tests.compile.following import check_as_eagerly


class Memory(nn.Module):
    """Keeps its last output in a plain attribute, and its mean in an assigned buffer."""

    def __init__(self):
        super().__init__()
        self.last = None
        self.register_buffer("total", flambeau.zeros(2))

    def forward(self, x):
        y = x if self.last is None else x + self.last
        self.last = y
        self.total = self.total + y
        return y


# Scenes: the function, the state outside, and what changes between calls; see `course`.


def a_tensor_outside_is_written():
    counter = flambeau.zeros(2, 2)
    return lambda x: counter.add_(x) * 2, lambda: (counter, counter._version)


def a_view_of_a_tensor_outside_is_written():
    table = flambeau.zeros(2, 2, 2)
    return lambda x: table[0].copy_(x).sum(), lambda: table


def the_argument_is_written():
    return lambda x: x.mul_(2), lambda: None


def a_tensor_outside_is_returned():
    weight = flambeau.ones(2)
    return lambda x: weight, lambda: weight


def two_tensors_share_an_array():
    one, other = flambeau.ones(2), flambeau.zeros(2)
    other.copy_(one)
    return lambda x: (one.mul_(2), other.mul_(3)), lambda: (one, other)


def gradients_stay():
    weight = flambeau.ones(2, 2, requires_grad=True)

    def change(call):
        weight.grad = [weight.grad, None, flambeau.full((2, 2), 10.0), weight.grad, None][call]

    return lambda x: (weight * x).sum().backward(), lambda: weight, change


def backward_reaches_the_base_of_a_captured_view():
    weight = flambeau.ones(2, 2, requires_grad=True)
    row = weight[0]
    return lambda x: (row * x).sum(), lambda: weight


def a_module_keeps_tensors():
    module = Memory()
    return module, lambda: (module.last, module.total)


def a_new_leaf(find):
    """A scene that returns a new leaf on the elements of a tensor, and a function of it."""

    def make():
        outside = flambeau.ones(2, 2)

        def step(x):
            leaf = find(outside, x).detach().requires_grad_()
            return (leaf * 3).sum(), leaf, leaf

        return step, lambda: outside

    return make


SCENES = {
    "a tensor outside is written": (a_tensor_outside_is_written, 1),
    "a view of a tensor outside is written": (a_view_of_a_tensor_outside_is_written, 1),
    "the argument is written": (the_argument_is_written, 1),
    "a tensor outside is returned": (a_tensor_outside_is_returned, 1),
    "two tensors share an array": (two_tensors_share_an_array, 1),
    # A call finds no gradient, or one.
    "gradients stay": (gradients_stay, 2),
    "backward reaches the base of a captured view": (
        backward_reaches_the_base_of_a_captured_view, 1,
    ),
    # The first call finds no last output.
    "a module keeps tensors": (a_module_keeps_tensors, 2),
    "a new leaf on a tensor outside": (a_new_leaf(lambda outside, x: outside), 1),
    "a new leaf on an argument": (a_new_leaf(lambda outside, x: x), 1),
    "a new leaf on data": (a_new_leaf(lambda outside, x: outside.data), 1),
}  # fmt: skip


@pytest.mark.parametrize("name", SCENES)
def test_calls_are_as_eager(name):
    def use(result):
        total, *leaves = result if isinstance(result, tuple) else (result,)
        if total is not None and total.requires_grad:
            total.backward()
            # A new leaf shares its elements.
            [leaf.detach().add_(1) for leaf in leaves]

    make, programs = SCENES[name]
    check_as_eagerly(make, programs, after=use)


def test_an_array_that_someone_holds_is_not_donated():
    weight = flambeau.ones(3)
    step = flambeau.compile(lambda: weight.mul_(2))
    step()
    held, alias = weight.jax(), weight.detach().clone()
    numpy = weight.numpy()
    step()
    assert held.tolist() == [2.0, 2.0, 2.0]
    assert alias.tolist() == [2.0, 2.0, 2.0]
    assert numpy.tolist() == [4.0, 4.0, 4.0]
    assert weight.tolist() == [4.0, 4.0, 4.0]


def test_an_array_that_nobody_holds_is_donated():
    weight = flambeau.ones(3)
    step = flambeau.compile(lambda: weight.mul_(2))
    step()
    array = weakref.ref(weight.jax())
    deleted = weight._cell.array.is_deleted
    del array
    assert not deleted()
    before = weight._cell.array
    pointer = before.unsafe_buffer_pointer()
    del before, deleted
    step()
    assert weight._cell.array.unsafe_buffer_pointer() == pointer


def test_the_first_call_donates_too():
    # Large, since small memory may be given out again at another place. A product, since JAX may
    # borrow the memory of a constant from NumPy, which no program may overwrite.
    weight = flambeau.ones(1000, 1000) * 1
    pointer = weight._cell.array.unsafe_buffer_pointer()
    flambeau.compile(lambda: weight.mul_(2))()
    assert weight.sum().item() == 2e6
    assert weight._cell.array.unsafe_buffer_pointer() == pointer


def test_copying_an_array_that_someone_holds_compiles_nothing(caplog):
    weight = flambeau.ones(3, 7, 11)  # Of a shape that nobody else has copied.
    step = flambeau.compile(lambda: weight.mul_(2))
    step()
    held = weight.jax()
    with jax.log_compiles():
        step()
    assert not [each for each in caplog.messages if "Compiling" in each]
    assert held[0, 0, 0] == 2.0
    assert weight[0, 0, 0] == 4.0


def test_backward_outside_goes_through_the_program():
    weight = flambeau.tensor([1.0, 2.0], requires_grad=True)
    x = flambeau.tensor([3.0, 4.0], requires_grad=True)
    f = flambeau.compile(lambda x: (weight * x * x).sum())
    for _ in range(2):
        loss = f(x)
        assert type(loss.grad_fn).__name__ == "CompiledFunctionBackward"
        loss.backward()
    assert weight.grad.tolist() == [18.0, 32.0]
    assert x.grad.tolist() == [12.0, 32.0]
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()


def test_calls_that_alternate_find_their_programs():
    f = flambeau.compile(lambda x, y: x + y)
    a, b = flambeau.ones(2), flambeau.ones(2, 1)
    for _ in range(3):
        assert f(a, a).tolist() == [2.0, 2.0]
        assert f(a, b).shape == (2, 2)
        assert f(a, y=a).tolist() == [2.0, 2.0]
        assert f(a.double(), a).dtype is flambeau.float64
    assert f.program_count == 4


def test_backward_through_what_the_program_has_spent_fails_as_eagerly():
    weight = flambeau.ones(2, requires_grad=True)

    @flambeau.compile
    def step(x):
        loss = (weight * x).exp().sum()
        loss.backward()
        return loss

    loss = step(flambeau.ones(2))
    assert loss.requires_grad
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()


def test_no_grad_is_another_situation():
    weight = flambeau.ones(2, requires_grad=True)
    f = flambeau.compile(lambda x: weight * x)
    x = flambeau.ones(2)
    assert f(x).requires_grad
    with flambeau.no_grad():
        assert not f(x).requires_grad
    assert f(x).requires_grad


REFUSED = {
    "if": lambda x: x if x.sum() > 0 else -x,
    "item": lambda x: x * x.sum().item(),
    "float": lambda x: x * float(x.sum()),
    "tolist": lambda x: x.tolist(),
    "numpy": lambda x: x.numpy(),
    "mask": lambda x: x[x > 0],
}


@pytest.mark.parametrize("name", REFUSED)
def test_asking_for_a_value_names_the_line(name):
    with pytest.raises(CompileError, match=r"test_program\.py, line \d+"):
        flambeau.compile(REFUSED[name], fullgraph=True)(flambeau.ones(2))


def test_the_users_own_error_is_raised_as_it_is():
    def f(x):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        flambeau.compile(f)(flambeau.ones(2))


def test_backward_of_an_older_graph_is_refused():
    weight = flambeau.ones(2, requires_grad=True)
    loss = (weight * weight).sum()
    with pytest.raises(CompileError, match="recorded before"):
        flambeau.compile(lambda: loss.backward(), fullgraph=True)()


def test_disable_gives_the_function_itself():
    def f(x):
        return x

    assert flambeau.compile(f, disable=True) is f
    with pytest.raises(TypeError, match="speed"):
        flambeau.compile(f, speed=3)


def test_module_keeps_its_face():
    layer = nn.Linear(2, 2)
    compiled = flambeau.compile(layer)
    assert compiled.in_features == 2
    assert [name for name, _ in compiled.named_parameters()] == ["weight", "bias"]


def test_nested_compiled_functions_are_one_program():
    inner = flambeau.compile(lambda x: x + 1)
    outer = flambeau.compile(lambda x: inner(x) * 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert outer(flambeau.ones(2)).tolist() == [4.0, 4.0]
    assert inner.program_count == 0
