"""Meshes, tensors that lie on them, and models placed by rules."""

import jax
import numpy as np
import pytest

import flambeau
from flambeau import nn, optim
from flambeau.distributed.device_mesh import DeviceMesh, init_device_mesh
from flambeau.distributed.fsdp import fully_shard
from flambeau.distributed.tensor import (
    DTensor,
    Partial,
    Replicate,
    Shard,
    distribute_module,
    distribute_tensor,
    randn,
)
from flambeau.testing import assert_close


@pytest.fixture(name="mesh")
def _mesh():
    return init_device_mesh("cpu", (4, 2), mesh_dim_names=("data", "model"))


def test_a_mesh_tells_its_shape_and_slices(mesh):
    assert (mesh.shape, mesh.ndim, mesh.size(), mesh.size(1)) == ((4, 2), 2, 8, 2)
    part = mesh["model"]
    assert (part.shape, part.mesh_dim_names, part.is_slice) == ((2,), ("model",), True)
    assert mesh["model", "data"].shape == (2, 4)
    assert mesh == init_device_mesh("cpu", (4, 2), mesh_dim_names=("data", "model"))
    assert mesh != part
    assert part.mesh.tolist() == mesh.mesh[0].tolist()
    assert mesh.get_coordinate() == (0, 0)
    assert part.get_local_rank() == 0
    assert repr(mesh) == "DeviceMesh((data=4, model=2), 'cpu')"


def test_dimensions_are_flattened():
    mesh = init_device_mesh("cpu", (2, 2, 2), mesh_dim_names=("pp", "dp", "cp"))
    one = mesh["dp", "cp"]._flatten("dp_cp")
    assert (one.shape, one.ndim, one.mesh_dim_names) == ((4,), 1, ("dp_cp",))
    assert one == mesh["dp_cp"] == mesh["dp", "cp"]._flatten("dp_cp")
    assert mesh["pp", "dp_cp"].shape == (2, 4)
    assert mesh["dp_cp", "pp"].mesh.tolist() == mesh.mesh.reshape(2, 4).t().tolist()
    assert mesh._flatten().mesh_dim_names == ("pp_dp_cp",)
    assert one.get_coordinate() == (0,)
    with pytest.raises(RuntimeError, match="'pp' already exists"):
        mesh["dp", "cp"]._flatten("pp")
    with pytest.raises(RuntimeError, match="'dp_cp' already exists"):
        mesh["pp", "dp"]._flatten("dp_cp")
    for both in (("dp", "dp_cp"), ("dp_cp", "cp")):
        with pytest.raises(KeyError, match="Invalid mesh_dim_names"):
            mesh[both]
    x = distribute_tensor(flambeau.arange(8.0), one, [Shard(0)])
    assert x.to_local().tolist() == [0, 1]
    assert flambeau.compile(lambda x: x.redistribute(one, [Replicate()]) * 2)(x).tolist() == [
        *range(0, 16, 2)
    ]
    model = fully_shard(nn.Linear(8, 4), mesh=mesh["dp_cp"])
    assert model.weight.to_local().shape == (1, 8)
    flambeau.shard(model, one, {"weight": (None, "dp_cp")})
    assert model.weight.to_local().shape == (4, 2)
    whole = nn.Linear(8, 4)
    whole.load_state_dict({name: each.full_tensor() for name, each in model.state_dict().items()})
    assert_close(model(flambeau.ones(8, 8)).full_tensor(), whole(flambeau.ones(8, 8)))


def test_groups_need_a_process_group(mesh):
    with pytest.raises(ValueError, match="Default process group has not been initialized"):
        mesh.get_group("data")
    with pytest.raises(RuntimeError, match="must be told mesh_dim"):
        mesh.get_group()
    with pytest.raises(KeyError, match="no dimension 'date'"):
        mesh.get_group("date")


def test_a_mesh_is_made_of_numbers_of_devices():
    mesh = DeviceMesh("cpu", [[7, 6], [1, 0]], mesh_dim_names=("a", "b"))
    assert mesh.mesh.tolist() == [[7, 6], [1, 0]]
    assert [each.id for each in mesh.jax().devices.flat] == [7, 6, 1, 0]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: init_device_mesh("cpu", (16,)), "should not be bigger than default world size 8"),
        (lambda: init_device_mesh("cpu:0", (1,)), "Device type with index is not supported"),
        (lambda: init_device_mesh("mars", (1,)), "device_type must be one of"),
        (lambda: init_device_mesh("cpu", (2, 2), mesh_dim_names=("a", "a")), "must be unique"),
        (lambda: init_device_mesh("cpu", (2, 2), mesh_dim_names=("a",)), "same length"),
        (lambda: DeviceMesh("cpu", [0, 9]), "names device 9, but there are 8"),
        (lambda: DeviceMesh("cpu", [1, 1]), "twice"),
    ],
)
def test_a_mesh_that_cannot_be_is_refused(make, message):
    with pytest.raises(RuntimeError, match=message):
        make()


def test_a_slice_along_no_dimension_of_the_mesh_is_refused(mesh):
    with pytest.raises(KeyError, match="Invalid mesh_dim_names"):
        mesh["rows"]


def test_a_distributed_tensor_is_a_tensor_that_lies_on_a_mesh(mesh):
    x = distribute_tensor(flambeau.arange(32.0).reshape(8, 4), mesh, [Shard(0), Shard(-1)])
    assert type(x) is flambeau.Tensor
    assert isinstance(x, DTensor)
    assert isinstance(x * 2, DTensor)
    assert not isinstance(flambeau.ones(2), DTensor)
    assert not hasattr(flambeau.ones(2), "full_tensor")
    assert x.placements == (Shard(0), Shard(1))
    assert x.device_mesh == mesh
    assert x.to_local().tolist() == [[0, 1], [4, 5]]
    assert x.full_tensor().tolist() == x.tolist()
    assert not isinstance(x.full_tensor(), DTensor)
    assert x.redistribute(placements=[Replicate(), Shard(0)]).placements == (Replicate(), Shard(0))


def test_along_dimensions_that_a_slice_leaves_out_a_tensor_stays_divided(mesh):
    x = distribute_tensor(flambeau.ones(8, 4), mesh["data"], [Shard(0)])
    assert x.placements == (Shard(0), Replicate())
    assert distribute_tensor(x, mesh["model"], [Shard(1)]).placements == (Shard(0), Shard(1))


def test_parts_make_a_tensor(mesh):
    part = flambeau.tensor([[1.0, 2.0]])
    found = DTensor.from_local(part, mesh, [Shard(0), Shard(1)])
    assert found.tolist() == [[1, 2, 1, 2]] * 4
    found = DTensor.from_local(part, mesh, [Partial(), Replicate()])
    assert found.tolist() == [[4, 8]]


def test_gradients_flow_through_redistribution_with_the_placements_of_the_input(mesh):
    x = distribute_tensor(flambeau.arange(8.0).requires_grad_(), mesh, [Shard(0), Replicate()])
    y = x.redistribute(placements=[Replicate(), Shard(0)])
    (y * y + x.to_local().sum()).sum().backward()
    expected = 2 * np.arange(8.0) + np.array([8, 8, 0, 0, 0, 0, 0, 0])
    np.testing.assert_allclose(x.grad.numpy(), expected)
    leaf = flambeau.arange(8.0).requires_grad_()
    DTensor.from_local(leaf, mesh, [Replicate(), Replicate()]).pow(2).sum().backward()
    assert leaf.grad.tolist() == (2 * leaf).tolist()
    assert len(leaf.grad.jax().devices()) == 1


def test_redistribution_is_a_constraint_inside_a_compiled_function(mesh):
    @flambeau.compile
    def double(x):
        return (x * 2).redistribute(mesh, [Shard(1), Replicate()])

    x = distribute_tensor(flambeau.ones(8, 4), mesh, [Shard(0), Replicate()])
    assert double(x).placements == (Shard(1), Replicate())


@pytest.mark.parametrize(
    ("placements", "error", "message"),
    [
        ([Shard(0), Replicate()], ValueError, "dimension 0 .*by 4; make it 8, or cut dimension 1"),
        ([Shard(2), Replicate()], ValueError, "has 2 dimensions, so it cannot be cut by Shard"),
        ([Shard(1)], ValueError, "`placements` must have the same length as `device_mesh.ndim`"),
        ([Partial(), Replicate()], RuntimeError, "Can not redistribute to Partial"),
    ],
)  # fmt: skip
def test_placements_that_do_not_fit_are_refused(mesh, placements, error, message):
    with pytest.raises(error, match=message):
        distribute_tensor(flambeau.ones(6, 12), mesh, placements)


def test_what_was_computed_is_not_distributed_as_a_leaf(mesh):
    with pytest.raises(RuntimeError, match="found non-leaf tensor"):
        distribute_tensor(flambeau.ones(8).requires_grad_() * 2, mesh)


def test_random_numbers_on_a_mesh_are_those_of_one_device(mesh):
    flambeau.manual_seed(0)
    one = flambeau.randn(8, 2)
    flambeau.manual_seed(0)
    many = randn(8, 2, device_mesh=mesh, placements=[Shard(0), Replicate()])
    assert many.tolist() == one.tolist()
    assert many.placements == (Shard(0), Replicate())


def test_writes_in_place_leave_a_tensor_where_it_lies(mesh):
    x = distribute_tensor(flambeau.ones(8, 4), mesh, [Shard(0), Shard(1)])
    for write in (
        lambda: x.copy_(flambeau.zeros(8, 4)), lambda: x.normal_(), lambda: x.fill_(2),
        lambda: x.add_(distribute_tensor(flambeau.ones(8, 4), mesh)),
        lambda: x[2:4].mul_(3), lambda: nn.init.xavier_uniform_(x),
    ):  # fmt: skip
        write()
        assert x.placements == (Shard(0), Shard(1))


def test_a_module_is_distributed_by_a_function(mesh):
    def divide(name, module, mesh):
        if isinstance(module, nn.Linear):
            module.weight = nn.Parameter(
                distribute_tensor(module.weight, mesh, [Replicate(), Shard(0)])
            )

    net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8))
    expected = net(flambeau.ones(2, 4)).tolist()
    found = distribute_module(
        net, mesh, divide, lambda module, x, mesh: (x[0] + 1,), lambda module, y, mesh: y * 2
    )
    assert found is net
    assert net[0].weight.placements == (Replicate(), Shard(0))
    assert net[1].running_mean.placements == (Replicate(), Replicate())
    np.testing.assert_allclose(
        net(flambeau.zeros(2, 4)).detach().numpy(), 2 * np.array(expected), atol=1e-5
    )


RULES = {"0.weight": ("model", "data"), "*.weight": [Replicate(), Shard(1)]}


def model():
    flambeau.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 6))


def placed(net):
    return {name: each.placements for name, each in net.named_parameters()}


PLACED = {
    "0.weight": (Shard(1), Shard(0)),
    "0.bias": (Replicate(), Replicate()),
    "2.weight": (Replicate(), Shard(1)),
    "2.bias": (Replicate(), Replicate()),
}


def test_a_model_is_placed_by_rules_on_names(mesh):
    net = model()
    before = {name: each.tolist() for name, each in net.named_parameters()}
    parameters = [*net.parameters()]
    assert flambeau.shard(net, mesh, RULES) is net
    assert placed(net) == PLACED
    assert all(a is b for a, b in zip(net.parameters(), parameters, strict=True))
    assert {name: each.tolist() for name, each in net.named_parameters()} == before


def test_a_model_on_the_meta_device_is_materialized_where_it_belongs(mesh):
    with flambeau.device("meta"):
        net = model()
    flambeau.shard(net, mesh, RULES)
    assert placed(net) == PLACED
    flambeau.manual_seed(0)
    net.materialize()
    assert placed(net) == PLACED
    expected = model().state_dict()
    assert all(each.tolist() == expected[name].tolist() for name, each in net.state_dict().items())


@pytest.mark.parametrize("meta", [False, True])
def test_what_is_loaded_lies_as_the_model_does(mesh, meta):
    given = model().state_dict()
    with flambeau.device("meta" if meta else "cpu"):
        net = model()
    flambeau.shard(net, mesh, RULES)
    net.load_state_dict(given, assign=meta)
    assert placed(net) == PLACED
    assert all(each.tolist() == given[name].tolist() for name, each in net.state_dict().items())
    assert all(isinstance(each, nn.Parameter) for each in net.parameters())


def test_a_rule_that_matches_nothing_is_refused(mesh):
    net = model()
    with pytest.raises(ValueError, match=r"rule '1\.weight' matches no parameter .* 0\.weight"):
        flambeau.shard(net, mesh, {"0.bias": (), "1.weight": ()})
    assert not isinstance(net[0].bias, DTensor)


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (("rows",), "must name dimensions of the mesh"),
        ((None, None, "data"), "has 2 dimensions, but its rule"),
        (("data", "data"), "each once at most"),
        ((None, ("data", "model")), r"dimension 1 of 0\.weight.*4 is not divisible by 8"),
    ],
)
def test_a_rule_that_does_not_fit_is_refused(mesh, rule, message):
    with pytest.raises(ValueError, match=message):
        flambeau.shard(model(), mesh, {"0.weight": rule})


def test_rules_that_are_no_dictionary_are_refused(mesh):
    with pytest.raises(TypeError, match=r"rules must be a dictionary .*, got list"):
        flambeau.shard(nn.Linear(8, 8), mesh, [("weight", "model")])


def test_a_model_is_placed_on_a_mesh_of_jax_too():
    net = flambeau.shard(model(), jax.make_mesh((8,), ("all",)), {"0.weight": ("all", None)})
    assert net[0].weight.placements == (Shard(0),)
    optimizer = optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    net(flambeau.ones(2, 4)).sum().backward()
    optimizer.step()
    assert net[0].weight.placements == (Shard(0),)
    assert optimizer.state[net[0].weight]["momentum_buffer"].placements == (Shard(0),)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("written", ["one", "spread", "spread, with its part taken"])
def test_a_tensor_and_its_copy_on_a_mesh_have_memory_of_their_own(mesh, written, compiled):
    one = flambeau.ones(8) * 2
    spread = distribute_tensor(one, mesh, [Replicate()] * mesh.ndim)
    if written == "spread, with its part taken":
        one = spread.to_local()
    target = one if written == "one" else spread

    def step():
        target.add_(1)

    # A compiled step overwrites the memory of the tensors that it changes.
    step = flambeau.compile(step) if compiled else step
    for _ in range(2):
        step()
    expected = {id(target): 4.0}
    for each in (one, spread):
        assert each.tolist() == [expected.get(id(each), 2.0)] * 8
