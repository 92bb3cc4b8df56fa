"""Functions under names for older programs."""

import pytest

import flambeau


@pytest.fixture(autouse=True)
def default_dtype():
    yield
    flambeau.set_default_dtype(flambeau.float32)


@pytest.mark.parametrize("kind", [flambeau.DoubleTensor, "torch.DoubleTensor", "DoubleTensor"])
def test_a_tensor_type_sets_the_default_dtype(kind):
    flambeau.set_default_tensor_type(kind)
    assert flambeau.ones(1).dtype is flambeau.float64


@pytest.mark.parametrize("kind", [flambeau.LongTensor, "torch.cuda.FloatTensor", "Nothing", 3])
def test_other_types_cannot_be_the_default(kind):
    with pytest.raises(TypeError, match="set_default_device"):
        flambeau.set_default_tensor_type(kind)


def test_a_capsule_makes_the_tensor_again():
    import numpy as np

    class Holder:
        def __dlpack__(self, **_):
            return flambeau.to_dlpack(flambeau.arange(3))

        def __dlpack_device__(self):
            return (1, 0)

    assert np.from_dlpack(Holder()).tolist() == [0, 1, 2]


def test_unsafe_parts_are_copies():
    whole = flambeau.zeros(3)
    first, second = whole.unsafe_split_with_sizes([1, 2])
    first.fill_(1)
    assert not whole.any()
    assert second.shape == (2,)


def test_a_backward_by_an_older_name_of_its_cotangents_warns():
    x = flambeau.ones(2, requires_grad=True)
    with pytest.warns(FutureWarning, match="grad_tensors"):
        flambeau.autograd.backward(x * 2, grad_variables=flambeau.ones(2))
    assert x.grad.tolist() == [2, 2]
    with (
        pytest.warns(FutureWarning, match="grad_tensors"),
        pytest.raises(RuntimeError, match="the same argument"),
    ):
        flambeau.autograd.backward(x, flambeau.ones(2), grad_variables=flambeau.ones(2))


def test_grad_takes_only_inputs():
    x = flambeau.ones(2, requires_grad=True)
    (found,) = flambeau.autograd.grad((x * 3).sum(), x, only_inputs=True)
    assert found.tolist() == [3, 3]
    with pytest.warns(FutureWarning, match="only_inputs"):
        flambeau.autograd.grad((x * 3).sum(), x, only_inputs=False)
