"""Names of `distributed` that programs ask about."""

import pytest

import flambeau
from flambeau.distributed import device_mesh, nn, rpc, tensor
from flambeau.distributed.tensor import _utils, placement_types


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
    for module, name in ((nn, "broadcast"), (rpc, "init_rpc")):
        with pytest.raises(AttributeError, match=f"'{name}': one process may own several devices"):
            getattr(module, name)


def test_the_part_that_a_process_has():
    mesh = device_mesh.init_device_mesh("cpu", (1, 1))
    compute = _utils.compute_local_shape_and_global_offset
    placements = [tensor.Shard(0), tensor.Replicate()]
    assert compute((4, 3), mesh, placements) == ((4, 3), (0, 0))
    assert compute((4, 3), mesh, placements, skip_offset=True) == ((4, 3), ())
    parts = [tensor.Shard.local_shard_size_and_offset(5, 4, rank) for rank in range(4)]
    assert parts == [(2, 0), (2, 2), (1, 4), (0, 5)]


def test_where_two_dimensions_of_a_mesh_cut_one_of_the_tensor():
    class Mesh:
        shape = (2, 2)

        def __init__(self, place):
            self.get_coordinate = lambda: place

    compute = _utils.compute_local_shape_and_global_offset
    cuts = [tensor.Shard(1), tensor.Shard(-1)]
    found = [compute((2, 5), Mesh([i, j]), cuts) for i in range(2) for j in range(2)]
    # The values that PyTorch's documentation of the function shows.
    assert found == [((2, 2), (0, 0)), ((2, 1), (0, 2)), ((2, 1), (0, 3)), ((2, 1), (0, 4))]


def test_a_name_that_packages_import_says_what_to_do_when_it_is_made():
    with pytest.raises(NotImplementedError, match="flambeau"):
        placement_types._StridedShard("path")
