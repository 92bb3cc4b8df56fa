"""New tensors: what they share, what they never share, and what they cost."""

import inspect

import jax
import numpy as np
import pytest

import flambeau
from flambeau.core.support import world

FACTORIES = {
    "zeros": lambda: flambeau.zeros(2, 3),
    "full": lambda: flambeau.full((2, 3), 2.5),
    "arange": lambda: flambeau.arange(6),
    "eye": lambda: flambeau.eye(2),
    "linspace": lambda: flambeau.linspace(0, 1, 5),
    "tril_indices": lambda: flambeau.tril_indices(2, 3),
    "tensor": lambda: flambeau.tensor([[1, 2], [3, 4]]),
    "number": lambda: flambeau.tensor(1.5),
    "as_tensor": lambda: flambeau.as_tensor(np.arange(3)),
    "scalar_tensor": lambda: flambeau.scalar_tensor(2),
}


@pytest.mark.parametrize("name", FACTORIES)
def test_arrays_are_committed_to_their_device(name):
    # XLA would compile every operator twice, for committed operands and for others.
    assert FACTORIES[name]()._read().committed


@pytest.mark.parametrize("name", FACTORIES)
def test_types_are_never_weak(name):
    assert not FACTORIES[name]()._read().weak_type
    traced = flambeau.compile(lambda: FACTORIES[name]())()
    assert not traced._read().weak_type


@pytest.mark.parametrize("name", FACTORIES)
def test_compiled_functions_make_the_same(name):
    expected, made = FACTORIES[name](), flambeau.compile(lambda: FACTORIES[name]())()
    assert made.dtype is expected.dtype
    np.testing.assert_allclose(made.numpy(), expected.numpy(), rtol=1e-6)


def test_a_constant_changed_in_a_compiled_function_starts_anew():
    @flambeau.compile
    def count():
        counter = flambeau.tensor([1.0])
        counter.zero_()
        counter[0] = 2.0
        return counter.fill_(counter.sum() + 1)

    assert count().tolist() == [3.0]
    assert count().tolist() == [3.0]


def test_a_tensor_fills_in_a_compiled_function():
    fill = flambeau.compile(lambda x: (flambeau.full((2,), x), flambeau.zeros(2).fill_(x)))
    for value in (1.5, 2.5):
        assert [each.tolist() for each in fill(flambeau.tensor(value))] == [[value, value]] * 2


def test_requires_grad_does_not_disturb_compiled_programs():
    before = world.version
    flambeau.zeros(2, requires_grad=True)
    assert world.version == before


def test_tensors_of_inference_mode_know_it():
    with flambeau.inference_mode():
        made = flambeau.ones(2)
    assert made.is_inference()
    with pytest.raises(RuntimeError, match=r"zero_\(\): inference"):
        made.zero_()


@pytest.mark.parametrize("make", [flambeau.tensor, flambeau.as_tensor, flambeau.from_numpy,
                                  flambeau.asarray, flambeau.from_dlpack])  # fmt: skip
def test_numpy_memory_is_never_shared(make):
    # Large enough for JAX to take over the memory of an array.
    array = np.ones(4096, np.float32)
    made = make(array)
    array[:] = 2
    assert made.sum().item() == 4096
    made.fill_(3)
    assert array.sum() == 2 * 4096


@pytest.mark.parametrize(
    "make",
    [
        flambeau.tensor, flambeau.as_tensor, flambeau.from_numpy, flambeau.asarray,
        flambeau.from_dlpack, lambda array: flambeau.tensor([array]),
        lambda array: flambeau.frombuffer(array, dtype=flambeau.bool),
        lambda array: flambeau.zeros(3, dtype=flambeau.bool).copy_(flambeau.from_numpy(array)),
        lambda array: flambeau.as_tensor(array[1]),
    ],
)  # fmt: skip
def test_bytes_other_than_0_and_1_are_true(make):
    made = make(np.array([0, 2, 255], np.uint8).view(np.bool_))
    assert set(made.view(flambeau.uint8).reshape(-1).tolist()) <= {0, 1}
    assert made.sum().item() == made.numel() - (made.numel() > 1)


def test_big_endian_arrays_are_converted():
    assert flambeau.tensor(np.array([1, 2], ">i4")).tolist() == [1, 2]


class TestFromJax:
    def test_it_keeps_the_array(self):
        array = jax.numpy.arange(3)
        assert flambeau.from_jax(array).jax() is array

    def test_later_writes_leave_the_array(self):
        array = jax.numpy.arange(3)
        flambeau.from_jax(array).zero_()
        assert array.tolist() == [0, 1, 2]

    def test_weak_types_become_strong(self):
        made = flambeau.from_jax(jax.numpy.asarray(2.0))
        assert not made.jax().weak_type

    def test_other_things_are_refused(self):
        with pytest.raises(TypeError, match="ndarray"):
            flambeau.from_jax(np.ones(2))

    def test_dtypes_that_no_tensor_has_are_named(self):
        with pytest.raises(TypeError, match="int4"):
            flambeau.from_jax(jax.numpy.ones(2, jax.numpy.int4))


def test_jax_arrays_are_data():
    made = flambeau.tensor(jax.numpy.arange(3, dtype=np.int16), dtype=flambeau.float32)
    assert made.tolist() == [0.0, 1.0, 2.0]


def test_dlpack_shares_tensors():
    tensor = flambeau.ones(3)
    assert flambeau.from_dlpack(tensor).jax() is tensor.jax()


def test_dlpack_cannot_share_what_its_owner_may_write():
    with pytest.raises(ValueError, match="copy=False"):
        flambeau.from_dlpack(np.ones(3), copy=False)


def test_asarray_keeps_the_flag_of_a_leaf():
    leaf = flambeau.ones(2, requires_grad=True)
    assert flambeau.asarray(leaf) is leaf


def test_a_tensor_copied_in_a_compiled_function_needs_no_value():
    def copied(x):
        with pytest.warns(UserWarning, match="detach"):
            return flambeau.tensor(x)

    assert flambeau.compile(copied)(flambeau.ones(2)).tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    "copy", [lambda x: flambeau.tensor(x), lambda x: x.new_tensor(x)], ids=["tensor", "new_tensor"]
)
def test_the_warning_about_copies_names_the_callers_line(copy):
    with pytest.warns(UserWarning, match="detach") as caught:
        copy(flambeau.ones(2))
    assert caught[0].filename == __file__


def test_new_tensors_of_a_parameter_are_plain():
    parameter = flambeau.nn.Parameter(flambeau.ones(2))
    for made in (parameter.new_zeros(2), flambeau.ones_like(parameter)):
        assert type(made) is flambeau.Tensor
        assert not made.requires_grad


def test_sparse_layouts_are_refused():
    with pytest.raises(NotImplementedError, match="sparse_coo"):
        flambeau.zeros(2, layout="sparse_coo")


@pytest.mark.parametrize(
    ("make", "facts"),
    [
        (lambda: flambeau.zeros(2, -1), ["zeros()", "[2, -1]"]),
        (lambda: flambeau.zeros(2, "a"), ["zeros()", "str", "'a'"]),
        (lambda: flambeau.ones(2, size=(2,)), ["ones()", "twice"]),
        (lambda: flambeau.full((2,), 300, dtype=flambeau.uint8), ["300", "uint8"]),
        (lambda: flambeau.arange(3, 0), ["arange()", "from 3 to 0"]),
        (lambda: flambeau.arange(1, 2, 3, 4), ["4 bounds"]),
        (lambda: flambeau.arange(1, start=2, end=3), ["start twice"]),
        (lambda: flambeau.linspace(0, 1, -2), ["linspace()", "-2"]),
        (lambda: flambeau.eye(3, -2), ["eye()", "[3, -2]"]),
        (lambda: flambeau.ones(2).fill_(flambeau.ones(3)), ["fill_()", "[3]"]),
        (lambda: flambeau.zeros(2, dtype=str), ["zeros()", "str"]),
        (lambda: flambeau.zeros(2, out=[1]), ["zeros()", "list"]),
    ],
)
def test_errors_name_the_facts(make, facts):
    with pytest.raises((RuntimeError, TypeError)) as caught:
        make()
    assert all(fact in str(caught.value) for fact in facts)


def test_zero_keeps_its_sign():
    for made in (flambeau.full((1,), -0.0), flambeau.ones(1).fill_(-0.0)):
        assert str(made) == "tensor([-0.])"
    assert str(flambeau.full((1,), 0.0)) == "tensor([0.])"


def test_empty_tensors_are_independent():
    one, other = flambeau.empty(3), flambeau.empty(3)
    one[0] = 5.0
    one.add_(1)

    @flambeau.compile
    def swap():
        kept = one.clone()
        one.copy_(other)
        other.copy_(kept)

    swap()
    assert one.tolist() == [0.0, 0.0, 0.0]
    assert other.tolist() == [6.0, 1.0, 1.0]
    assert flambeau.empty(3).tolist() == [0.0, 0.0, 0.0]
    one, other = flambeau.empty(3), flambeau.empty(3)

    @flambeau.compile
    def step():
        one.add_(1)
        other.sub_(1)

    for count in (1, 2):
        step()
        assert one.tolist() == [count] * 3
        assert other.tolist() == [-count] * 3
    assert flambeau.empty(3).tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("name", ["zeros", "full", "arange", "rand"])
def test_factories_show_their_shared_options_and_refuse_others(name):
    factory = getattr(flambeau, name)
    shared = ["out", "dtype", "layout", "device", "pin_memory", "requires_grad"]
    assert list(inspect.signature(factory).parameters)[-6:] == shared
    args = {"full": ((2,), 1.0)}.get(name, (2,))
    with pytest.raises(TypeError, match=rf"{name}\(\) got an unexpected keyword argument 'colour'"):
        factory(*args, colour="red")


@pytest.mark.parametrize(
    ("dtype", "value", "expected"),
    [
        ("uint8", -1, 255), ("uint8", 255, 255), ("uint8", -1.0, None), ("uint8", 255.9, None),
        ("uint8", 254.9, 254), ("int8", -128.9, None), ("int8", -127.9, -127), ("int8", 128, None),
        ("int64", 1e30, None), ("int64", float("nan"), None), ("bool", -0.5, True),
    ],
)  # fmt: skip
def test_numbers_that_an_integer_cannot_hold_are_refused(dtype, value, expected):
    target = flambeau.zeros(1, dtype=getattr(flambeau, dtype))
    if expected is not None:
        assert target.fill_(value).item() == expected
        return
    with pytest.raises(RuntimeError, match="without overflow"):
        target.fill_(value)
    assert target.item() == 0


@pytest.mark.parametrize(
    ("dtype", "number", "expected"),
    [
        (flambeau.float64, 0.1, 0.1), (flambeau.float32, True, 1.0), (flambeau.int64, 2.7, 2),
        (flambeau.uint8, 300, 44), (flambeau.bool, -1, True), (flambeau.complex64, 2j, 2j),
        (flambeau.float32, np.int64(3), 3.0),
    ],
)  # fmt: skip
def test_a_number_is_copied_into_all_elements(dtype, number, expected):
    x = flambeau.zeros(2, dtype=dtype)
    assert x.copy_(number) is x
    assert x.tolist() == [expected] * 2


def test_a_copied_number_is_in_the_history():
    x = flambeau.ones(2, requires_grad=True)
    doubled = x * 2
    doubled[:1].copy_(3)
    doubled.sum().backward()
    assert x.grad.tolist() == [0.0, 2.0]
    with pytest.raises(RuntimeError, match="leaf"):
        x.copy_(2.0)
    for wrong in ("a", None, [1.0]):
        with pytest.raises(TypeError, match="takes a Tensor"):
            doubled.copy_(wrong)
