"""Names of `distributed` that programs ask about."""

import pytest

import flambeau
from flambeau.distributed import device_mesh, nn, rpc, tensor


def test_a_tensor_on_one_device_is_no_distributed_tensor():
    assert issubclass(tensor.DTensor, flambeau.Tensor)
    assert not isinstance(flambeau.nn.Parameter(flambeau.ones(2)), tensor.DTensor)
    assert not hasattr(flambeau.ones(2), "placements")
    with pytest.raises(TypeError, match=r"made by distribute_tensor\("):
        tensor.DTensor(flambeau.ones(2))


def test_packages_that_import_distributed_alone_find_meshes():
    assert flambeau.distributed.device_mesh.DeviceMesh is device_mesh.DeviceMesh
    assert flambeau.distributed.init_device_mesh is device_mesh.init_device_mesh


def test_modules_that_packages_import_say_what_to_do_when_they_are_used():
    for module, name in ((nn, "all_reduce"), (rpc, "init_rpc")):
        with pytest.raises(AttributeError, match=f"'{name}': one process may own several devices"):
            getattr(module, name)
