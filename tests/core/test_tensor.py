"""What a tensor is: a handle on a Cell, with attributes, copies, subclasses and other libraries."""

import copy
import pickle
import subprocess
import sys
import textwrap

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import flambeau
from flambeau import Tensor


def test_any_attribute_can_be_set():
    x = flambeau.ones(2)
    x.note = "mine"
    assert copy.deepcopy(x).note == "mine"
    assert pickle.loads(pickle.dumps(x)).note == "mine"


def test_data_shares_elements_both_ways():
    x = flambeau.zeros(3, requires_grad=True)
    x.data[0] = 1.0
    y = x.data
    y += 1
    assert x.tolist() == [2.0, 1.0, 1.0]
    assert not y.requires_grad
    x.data = flambeau.ones(2)
    assert x.shape == (2,)
    assert x.requires_grad


def test_setting_data_shares_the_others_elements():
    x, y = flambeau.zeros(2), flambeau.ones(2)
    x.data = y
    y.add_(1)
    assert x.tolist() == [2.0, 2.0]
    with pytest.raises(TypeError, match="list"):
        x.data = [1.0]
    z = flambeau.zeros(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="int64"):
        z.data = flambeau.tensor([1, 2])


def test_version_counts_writes_through_every_handle():
    x = flambeau.zeros(2, 2)
    before = x._version
    x.add_(1)
    x[0].fill_(3)
    x.detach().mul_(2)
    assert x._version == before + 3
    assert x.tolist() == [[6.0, 6.0], [2.0, 2.0]]


def test_deepcopy_and_pickle_keep_what_matters():
    x = flambeau.ones(2, requires_grad=True)
    (x * 3).sum().backward()
    y = copy.deepcopy(x)
    assert y.requires_grad
    assert y.grad.tolist() == [3.0, 3.0]
    y.data.zero_()
    assert x.tolist() == [1.0, 1.0]
    z = pickle.loads(pickle.dumps(flambeau.ones(2, dtype=flambeau.bfloat16)))
    assert z.dtype is flambeau.bfloat16
    assert pickle.loads(pickle.dumps(flambeau.ones(2, device="meta"))).is_meta
    memo = {}
    a, b = copy.deepcopy([x, x], memo)
    assert a is b
    with pytest.raises(RuntimeError, match="MulBackward0"):
        copy.deepcopy(x * 2)


class Tagged(Tensor):
    pass


def test_subclasses():
    x = flambeau.ones(2)
    t = x.as_subclass(Tagged)
    assert type(t) is Tagged
    t.add_(1)
    assert x.tolist() == [2.0, 2.0]
    assert type(t + 1) is Tagged
    assert type(t.detach()) is Tagged
    made = Tensor._make_subclass(Tagged, x, True)
    assert made.requires_grad
    assert made.is_leaf
    assert type(Tagged([1.0, 2.0])) is Tagged


def test_overrides_see_the_functions_by_their_names():
    seen = []

    class Watched(Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append(func)
            return super().__torch_function__(func, types, args, kwargs)

    x = flambeau.ones(2).as_subclass(Watched)
    x[0] = x[1] + 1
    assert [each.__name__ for each in seen] == ["__getitem__", "add", "__setitem__"]
    assert seen == [Tensor.__getitem__, Tensor.add, Tensor.__setitem__]


def test_as_subclass_keeps_the_history():
    x = flambeau.ones(2, requires_grad=True)
    ((x * 2).as_subclass(Tagged) * 3).sum().backward()
    assert x.grad.tolist() == [6.0, 6.0]


def test_a_metaclass_may_widen_isinstance():
    class Meta(type(Tensor)):
        def __instancecheck__(cls, instance):
            return getattr(instance, "_marked", False) or super().__instancecheck__(instance)

    class Marked(Tensor, metaclass=Meta):
        pass

    x = flambeau.ones(1)
    assert not isinstance(x, Marked)
    x._marked = True
    assert isinstance(x, Marked)


def test_legacy_constructor():
    assert Tensor(2, 3).shape == (2, 3)
    assert Tensor([1, 2]).tolist() == [1.0, 2.0]
    assert Tensor().shape == (0,)
    with pytest.raises(TypeError, match="str"):
        Tensor("a")


def test_jax_arrays_are_not_copied():
    array = jnp.arange(3.0, dtype=jnp.float32)
    x = flambeau.from_jax(array)
    assert x.jax() is array
    assert jnp.sum(x.jax()) == 3
    assert jnp.add(array, x.__jax_array__()).tolist() == [0.0, 2.0, 4.0]


def test_numpy_of_a_tensor_that_requires_grad():
    with pytest.raises(RuntimeError, match="detach"):
        flambeau.ones(1, requires_grad=True).numpy()
    assert flambeau.ones(1, requires_grad=True).numpy(force=True).tolist() == [1.0]
    assert np.asarray(flambeau.ones(1), dtype=np.float64).dtype == np.float64


def test_numpy_functions_give_tensors():
    x = flambeau.zeros(2)
    for found in (np.exp(x), np.add(x, 1)):
        assert type(found) is Tensor
        assert found.tolist() == [1.0, 1.0]
    with pytest.raises(RuntimeError, match="detach"):
        np.exp(flambeau.ones(1, requires_grad=True))


def test_the_grad_of_a_result_is_asked_for_in_vain():
    x = flambeau.ones(2, requires_grad=True)
    y = x * 2
    (y * y).sum().backward()
    with pytest.warns(UserWarning, match=r"MulBackward0.*retain_grad") as warned:
        assert y.grad is None
    assert warned[0].filename == __file__
    z = x * 2
    z.retain_grad()
    assert z.grad is None
    z.sum().backward()
    assert z.grad.tolist() == [1.0, 1.0]


def test_dlpack_both_ways():
    x = flambeau.arange(3.0)
    assert np.from_dlpack(x).tolist() == [0.0, 1.0, 2.0]
    assert jax.dlpack.from_dlpack(x).tolist() == [0.0, 1.0, 2.0]
    assert flambeau.from_dlpack(np.arange(3)).tolist() == [0, 1, 2]
    with pytest.raises(RuntimeError, match="detach"):
        np.from_dlpack(flambeau.ones(1, requires_grad=True))


def test_python_numbers():
    assert flambeau.tensor(2.5).item() == 2.5
    assert flambeau.tensor([[3]]).item() == 3
    assert int(flambeau.tensor(3.7)) == 3
    assert float(flambeau.tensor(2)) == 2.0
    assert [10, 20, 30][flambeau.tensor(1)] == 20
    assert f"{flambeau.tensor(1.5):.2f}" == "1.50"
    assert bool(flambeau.tensor(0)) is False
    assert 2 in flambeau.tensor([1, 2])
    assert len(flambeau.zeros(3, 2)) == 3
    assert [row.tolist() for row in flambeau.tensor([[1], [2]])] == [[1], [2]]


@pytest.mark.parametrize(
    ("use", "error", "match"),
    [
        (lambda x: x.item(), RuntimeError, "3 elements"),
        (
            lambda x: bool(x),
            RuntimeError,
            "with more than one value is ambiguous",
        ),
        (
            lambda x: bool(x[:0]),
            RuntimeError,
            "Boolean value of Tensor with no values",
        ),
        (lambda x: [1][x], TypeError, "index"),
        (lambda x: [1][x.sum()], TypeError, "integer"),
        (lambda x: len(x.sum()), TypeError, "0-d"),
        (lambda x: iter(x.sum()), TypeError, "0-d"),
        (lambda x: x.size(2), IndexError, "but got 2"),
        (lambda x: x + "a", TypeError, "unsupported operand"),
    ],
)
def test_bad_conversions(use, error, match):
    with pytest.raises(error, match=match):
        use(flambeau.ones(3))


@pytest.mark.parametrize(
    ("value", "error", "match"),
    [
        ([1.0], TypeError, "list"),
        (flambeau.ones(3), RuntimeError, r"\[3\].*\[2\]"),
        (flambeau.ones(2, dtype=flambeau.float64), RuntimeError, "float64"),
        (flambeau.ones(2, device="meta"), RuntimeError, "meta"),
    ],
)
def test_grad_must_fit(value, error, match):
    x = flambeau.ones(2, requires_grad=True)
    with pytest.raises(error, match=match):
        x.grad = value
    assert x.grad is None


def test_requires_grad_rules():
    with pytest.raises(RuntimeError, match="int64"):
        flambeau.tensor([1]).requires_grad_()
    x = flambeau.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"MulBackward0.*detach"):
        (x * 2).requires_grad_(False)


def test_size_is_a_tuple_that_counts():
    size = flambeau.zeros(2, 3).shape
    assert repr(size) == "flambeau.Size([2, 3])"
    assert size.numel() == 6
    assert size == (2, 3)
    assert type(size[:1]) is flambeau.Size
    assert type(size + size) is flambeau.Size
    assert pickle.loads(pickle.dumps(size)) == size


def test_import_is_light():
    code = """
        import sys
        import flambeau
        heavy = {"torch", "scipy", "matplotlib", "sklearn", "optax", "flax"} & set(sys.modules)
        assert not heavy, heavy
        from jax._src import xla_bridge
        assert not xla_bridge.backends_are_initialized()
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True)


def test_a_parameter_gives_its_elements_to_numpy_where_no_gradients_are_recorded():
    w = flambeau.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="requires grad"):
        w.numpy()
    with flambeau.no_grad():
        assert w.numpy().tolist() == [1, 1]


def test_a_tensor_with_a_history_is_pickled_and_copied_as_a_leaf():
    weight = flambeau.ones(2, requires_grad=True)
    for tensor in (weight * 2, weight[:1], flambeau.nn.Parameter(flambeau.ones(2))):
        shared = copy.copy(tensor)
        for each in (pickle.loads(pickle.dumps(tensor)), shared):
            assert type(each) is type(tensor)
            assert each.is_leaf
            assert each.requires_grad
            assert flambeau.equal(each, tensor)
        with flambeau.no_grad():
            tensor.add_(1)
        assert flambeau.equal(shared, tensor)


def test_a_deep_copy_names_the_attribute_that_has_a_history():
    class Keeping(flambeau.nn.Linear):
        def forward(self, input):
            self.kept = {"results": [super().forward(input)]}

    module = Keeping(2, 2)
    module(flambeau.ones(1, 2))
    outer = flambeau.nn.Sequential(module)
    with pytest.raises(RuntimeError, match=r"graph leaves.*\(attribute 'kept' of Keeping\).*Addmm"):
        copy.deepcopy(outer)
    del module.kept
    copy.deepcopy(outer)
