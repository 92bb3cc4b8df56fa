"""Every change of a module's state is announced."""

import pickle

import pytest

import flambeau
from flambeau import nn
from flambeau.core.support import world
from flambeau.nn.registry import HookRegistry, Registry, as_table


class Model(nn.Module):
    """A member of every kind."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(flambeau.ones(2))
        self.register_buffer("mean", flambeau.zeros(2))
        self.child = nn.Sequential()
        self.size = 3

    def forward(self, x):
        return x


CHANGES = {
    "plain attribute": lambda model: setattr(model, "size", 4),
    "new plain attribute": lambda model: setattr(model, "other", 4),
    "deleted plain attribute": lambda model: delattr(model, "size"),
    "parameter": lambda model: setattr(model, "weight", nn.Parameter(flambeau.zeros(2))),
    "parameter to none": lambda model: setattr(model, "weight", None),
    "deleted parameter": lambda model: delattr(model, "weight"),
    "buffer": lambda model: setattr(model, "mean", flambeau.ones(2)),
    "deleted buffer": lambda model: delattr(model, "mean"),
    "module": lambda model: setattr(model, "child", nn.ModuleList()),
    "deleted module": lambda model: delattr(model, "child"),
    "module in a container": lambda model: model.child.append(nn.Sequential()),
    "training": lambda model: model.eval(),
    "conversion": lambda model: model.double(),
    "forward hook": lambda model: model.register_forward_hook(print),
    "forward pre-hook": lambda model: model.register_forward_pre_hook(print),
    "full backward hook": lambda model: model.register_full_backward_hook(print),
    "full backward pre-hook": lambda model: model.register_full_backward_pre_hook(print),
    "backward hook": lambda model: model.register_backward_hook(print),
    "parameters directly": lambda model: model._parameters.pop("weight"),
    "buffers directly": lambda model: model._buffers.clear(),
    "modules directly": lambda model: model._modules.update(child=None),
    "modules replaced": lambda model: setattr(model, "_modules", {}),
    "hooks directly": lambda model: model._forward_hooks.setdefault(1, print),
    "state set": lambda model: model.__setstate__({"size": 9}),
    "training flag directly": lambda model: setattr(model, "training", False),
}


@pytest.mark.parametrize("name", CHANGES)
def test_change_of_a_module_bumps_the_world(name):
    model = Model()
    before = world.version
    CHANGES[name](model)
    assert world.version > before


@pytest.mark.parametrize(
    "register",
    [
        nn.modules.module.register_module_forward_hook,
        nn.modules.module.register_module_forward_pre_hook,
        nn.modules.module.register_module_full_backward_pre_hook,
    ],
)
def test_global_hook_bumps_the_world_when_it_comes_and_goes(register):
    before = world.version
    handle = register(lambda *given: None)
    registered = world.version
    handle.remove()
    assert before < registered < world.version


def test_removing_a_hook_bumps_the_world():
    model = Model()
    handle = model.register_forward_hook(print)
    before = world.version
    handle.remove()
    assert world.version > before


def test_reading_and_calling_leave_the_world_as_it_is():
    model = Model()
    before = world.version
    model(model.weight)
    list(model.named_parameters())
    model.state_dict()
    assert model.size == 3
    assert world.version == before


TABLE_CHANGES = {
    "__setitem__": lambda table: table.__setitem__(1, 2),
    "__delitem__": lambda table: table.__delitem__(0),
    "__ior__": lambda table: table.__ior__({1: 2}),
    "clear": lambda table: table.clear(),
    "pop": lambda table: table.pop(0),
    "popitem": lambda table: table.popitem(),
    "setdefault": lambda table: table.setdefault(1, 2),
    "update": lambda table: table.update({1: 2}),
}


@pytest.mark.parametrize("kind", [Registry, HookRegistry])
@pytest.mark.parametrize("name", TABLE_CHANGES)
def test_table_announces_and_behaves_as_a_dictionary(kind, name):
    table, plain = kind({0: 1}), {0: 1}
    before = world.version
    TABLE_CHANGES[name](table)
    TABLE_CHANGES[name](plain)
    assert dict(table) == plain
    assert world.version > before


def test_failed_update_announces_what_it_did():
    table = Registry()
    before = world.version
    with pytest.raises(TypeError):
        table.update([("a", 1), 3])
    assert dict(table) == {"a": 1}
    assert world.version > before


def test_hooks_can_be_moved():
    hooks = HookRegistry({1: "a", 2: "b"})
    before = world.version
    hooks.move_to_end(2, last=False)
    assert list(hooks) == [2, 1]
    assert world.version > before


def test_tables_survive_pickling():
    for table in (Registry(a=1), HookRegistry({1: "a"})):
        other = pickle.loads(pickle.dumps(table))
        assert type(other) is type(table)
        assert other == table


def test_plain_dictionary_becomes_a_table():
    assert type(as_table("_modules", {"a": 1})) is Registry
    assert type(as_table("_forward_hooks", {1: print})) is HookRegistry
    table = Registry()
    assert as_table("_modules", table) is table
    assert as_table("_modules", None) is None
