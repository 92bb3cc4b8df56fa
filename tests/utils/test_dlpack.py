"""Elements handed over by DLPack, as objects and as capsules."""

import subprocess
import sys

import jax
import numpy as np
import pytest

import flambeau
from flambeau.utils.dlpack import from_dlpack, to_dlpack


def test_the_functions_are_those_of_flambeau():
    assert from_dlpack is flambeau.from_dlpack
    assert to_dlpack is flambeau.to_dlpack
    code = "import flambeau; print(flambeau.utils.dlpack.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "flambeau.utils.dlpack\n"


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "complex64", "int8"])
def test_a_capsule_makes_the_tensor_again(dtype):
    tensor = flambeau.arange(3).to(getattr(flambeau, dtype))
    again = from_dlpack(to_dlpack(tensor))
    assert again.dtype is tensor.dtype
    assert again.tolist() == tensor.tolist()


def test_capsules_of_others_are_read_and_copied():
    array = np.arange(6.0).reshape(2, 3)
    tensor = from_dlpack(array.__dlpack__())
    array[0, 0] = 7
    assert tensor.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert from_dlpack(jax.numpy.arange(3).__dlpack__()).tolist() == [0, 1, 2]


def test_a_capsule_is_read_once():
    capsule = to_dlpack(flambeau.arange(3))
    from_dlpack(capsule)
    with pytest.raises(RuntimeError, match=r"cannot read <capsule .*used_dltensor.*the tensor it"):
        from_dlpack(capsule)


def test_a_capsule_can_be_put_on_a_device_but_not_shared():
    assert from_dlpack(to_dlpack(flambeau.arange(3)), device="cpu").device.type == "cpu"
    with pytest.raises(ValueError, match="copy=False"):
        from_dlpack(to_dlpack(flambeau.arange(3)), copy=False)


def test_what_has_no_elements_to_hand_over_is_refused():
    with pytest.raises(RuntimeError, match="list has no __dlpack__ method"):
        from_dlpack([1])
    with pytest.raises(RuntimeError, match="detach"):
        to_dlpack(flambeau.ones(1, requires_grad=True))
