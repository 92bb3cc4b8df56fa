"""Cells come in and go out: what a compiled function reads, writes, returns and leaves behind."""

import warnings

import jax
import pytest

import flambeau
from flambeau import nn
from flambeau.compile import CompileError


def test_writes_reach_tensors_outside():
    counter = flambeau.zeros(2)

    @flambeau.compile
    def add(x):
        counter.add_(x)
        return counter * 2

    x = flambeau.ones(2)
    assert add(x).tolist() == [2.0, 2.0]
    assert add(x).tolist() == [4.0, 4.0]
    assert counter.tolist() == [2.0, 2.0]


def test_every_write_is_counted():
    counter = flambeau.zeros(2)
    add = flambeau.compile(lambda: counter.add_(1))
    add()
    version = counter._version
    add()
    assert counter._version > version


def test_views_of_outside_tensors_are_written_through():
    table = flambeau.zeros(2, 2)
    fill = flambeau.compile(lambda x: table[0].copy_(x))
    fill(flambeau.tensor([1.0, 2.0]))
    assert table.tolist() == [[1.0, 2.0], [0.0, 0.0]]


def test_argument_written_in_place():
    double = flambeau.compile(lambda x: x.mul_(2))
    x = flambeau.ones(2)
    assert double(x) is x
    assert x.tolist() == [2.0, 2.0]


def test_view_argument_written_in_place_reaches_its_base():
    double = flambeau.compile(lambda x: x.mul_(2))
    base = flambeau.ones(2, 2)
    double(base[1])
    assert base.tolist() == [[1.0, 1.0], [2.0, 2.0]]


def test_the_same_tensor_twice_is_one_tensor():
    def add_then_read(x, y):
        x.add_(1)
        return y * 1

    compiled = flambeau.compile(add_then_read)
    a, b = flambeau.zeros(2), flambeau.zeros(2)
    assert compiled(a, b).tolist() == [0.0, 0.0]
    assert compiled(b, b).tolist() == [1.0, 1.0]


def test_outside_tensor_returned_is_itself():
    weight = flambeau.ones(2)
    assert flambeau.compile(lambda: weight)() is weight


@pytest.mark.parametrize("source", ["outside", "argument", "data"])
def test_a_new_leaf_on_the_elements_of_another_tensor_is_another_at_each_call(source):
    outside, given = flambeau.ones(2), flambeau.full((2,), 2.0)

    @flambeau.compile
    def step(x):
        leaf = outside.data if source == "data" else (x if source == "argument" else outside)
        leaf = leaf.detach().requires_grad_()
        return leaf, (leaf * 3).sum(), leaf

    first = step(given)[0]
    for _ in range(2):
        leaf, total, again = step(given)
        assert leaf is again
        assert leaf is not first
        assert leaf.is_leaf
        assert leaf.requires_grad
        assert leaf.grad is None
        total.backward()
        assert leaf.grad.tolist() == [3.0, 3.0]
        assert not outside.requires_grad
        assert not given.requires_grad
    assert first.grad is None
    leaf.detach().zero_()
    assert (given if source == "argument" else outside).tolist() == [0.0, 0.0]


def test_nested_results_and_arguments():
    @flambeau.compile
    def f(pair, scale, *, name):
        return {name: pair[0] * scale, "none": None, "list": [pair[1], 3]}

    a, b = flambeau.ones(2), flambeau.zeros(2)
    result = f((a, b), 2, name="out")
    assert result["out"].tolist() == [2.0, 2.0]
    assert result["none"] is None
    assert result["list"][0] is b
    assert result["list"][1] == 3


def test_two_tensors_that_share_an_array_stay_apart():
    a = flambeau.ones(2)
    b = flambeau.zeros(2)
    b.copy_(a)

    @flambeau.compile
    def f():
        a.mul_(2)
        b.mul_(3)

    f()
    f()
    assert a.tolist() == [4.0, 4.0]
    assert b.tolist() == [9.0, 9.0]


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
    import weakref

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


def test_gradients_that_stay_are_given_out():
    weight = flambeau.ones(2, requires_grad=True)

    @flambeau.compile
    def f(x):
        (weight * x).sum().backward()

    x = flambeau.tensor([2.0, 3.0])
    f(x)
    assert weight.grad.tolist() == [2.0, 3.0]
    f(x)
    assert weight.grad.tolist() == [4.0, 6.0]
    weight.grad = None
    f(x)
    assert weight.grad.tolist() == [2.0, 3.0]
    weight.grad = flambeau.tensor([10.0, 10.0])
    f(x)
    assert weight.grad.tolist() == [12.0, 13.0]


def test_gradient_of_an_argument():
    f = flambeau.compile(lambda x: (x * x).sum().backward())
    x = flambeau.tensor([2.0, 3.0], requires_grad=True)
    f(x)
    f(x)
    assert x.grad.tolist() == [8.0, 12.0]


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


def test_backward_outside_goes_through_a_captured_view_to_its_base():
    weight = flambeau.ones(2, 2, requires_grad=True)
    row = weight[0]
    f = flambeau.compile(lambda x: (row * x).sum())
    f(flambeau.tensor([3.0, 4.0])).backward()
    assert weight.grad.tolist() == [[3.0, 4.0], [0.0, 0.0]]


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


def test_tensors_assigned_to_a_module_are_written_back():
    module, eager = Memory(), Memory()
    compiled = flambeau.compile(module)
    for value in (1.0, 2.0, 4.0, 8.0):
        x = flambeau.full((2,), value)
        assert flambeau.equal(compiled(x), eager(x))
        assert flambeau.equal(module.last, eager.last)
        assert flambeau.equal(module.total, eager.total)
    # One program for the first call, which finds no last output, and one for all others.
    assert compiled.program_count == 2


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


def test_an_error_leaves_no_tracer_behind():
    module = Memory()
    weight = flambeau.ones(2, requires_grad=True)

    @flambeau.compile(fullgraph=True)
    def f(x):
        module(x)
        module.total.add_(1)
        (weight * x).sum().backward()
        return x if x.sum() > 0 else -x

    with pytest.raises(CompileError):
        f(flambeau.ones(2))
    assert module.last is None
    assert module.total.tolist() == [0.0, 0.0]
    assert weight.grad is None
    assert (weight * 2).tolist() == [2.0, 2.0]


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
