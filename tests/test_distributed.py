"""Names of `distributed` that programs ask about."""

import pytest

import flambeau
from flambeau.distributed import device_mesh, nn, rpc, tensor


def test_no_tensor_is_spread_over_processes():
    assert issubclass(tensor.DTensor, flambeau.Tensor)
    assert not isinstance(flambeau.nn.Parameter(flambeau.ones(2)), tensor.DTensor)
    for make in (tensor.DTensor, tensor.DTensor.from_local):
        with pytest.raises(NotImplementedError, match=r"jax\.device_put"):
            make(flambeau.ones(2))
    with pytest.raises(AttributeError, match="'distribute_tensor': several devices work together"):
        tensor.distribute_tensor  # noqa: B018


def test_no_devices_are_in_rows_and_columns():
    # Packages annotate with it, and import `distributed` alone.
    assert flambeau.distributed.device_mesh.DeviceMesh is device_mesh.DeviceMesh
    with pytest.raises(NotImplementedError, match=r"jax\.device_put"):
        device_mesh.DeviceMesh("cpu", [0])


def test_no_processes_work_together():
    with pytest.raises(NotImplementedError, match=r"jax\.device_put"):
        flambeau.distributed.ProcessGroup(0, 1)


def test_modules_that_packages_import_say_what_to_do_when_they_are_used():
    meshes = (device_mesh, "init_device_mesh")
    for module, name in ((nn, "all_reduce"), (rpc, "init_rpc"), meshes):
        with pytest.raises(AttributeError, match=f"'{name}': several devices work together"):
            getattr(module, name)
