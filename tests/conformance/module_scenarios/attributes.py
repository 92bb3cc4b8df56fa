"""Setting, reading and deleting attributes of modules."""

import copy
import pickle

from tests.conformance.scenario import Table

scenario = Table()


def places(module, name):
    """Where a name stands."""
    tables = {
        "plain": module.__dict__,
        "parameter": module._parameters,
        "buffer": module._buffers,
        "module": module._modules,
    }
    return [place for place, table in tables.items() if name in table]


@scenario
def a_name_moves_between_all_places(lib, kit):
    module = lib.nn.Module()
    seen = []

    def note():
        seen.append(places(module, "x"))

    module.x = 1
    note()
    module.x = lib.nn.Parameter(lib.ones(1))
    note()
    del module.x
    module.x = kit.Scale()
    note()
    module.x = lib.nn.Parameter(lib.ones(1))
    note()
    del module.x
    module.register_buffer("x", lib.ones(1), persistent=False)
    note()
    module.x = lib.nn.Parameter(lib.ones(1))
    note()
    return seen, module._non_persistent_buffers_set


@scenario("weight", "Linear")
def a_module_over_a_parameter(lib, kit):
    class Linear(lib.nn.Module):
        pass

    module = kit.Scale()
    module.weight = Linear()


@scenario
def a_module_over_a_plain_attribute(lib, kit):
    net = kit.Net()
    net.width = kit.Echo()
    return places(net, "width"), list(net._modules)


@scenario
def a_module_over_a_buffer(lib, kit):
    shift = kit.Shift()
    shift.calls = kit.Echo()
    return places(shift, "calls"), shift._non_persistent_buffers_set, list(shift._buffers)


@scenario
def none_over_a_parameter(lib, kit):
    module = kit.Scale()
    module.weight = None
    return module.weight, module._parameters, places(module, "weight")


@scenario
def none_over_a_module(lib, kit):
    net = kit.Net()
    net.first = None
    return net.first, list(net._modules.items()), places(net, "first")


@scenario
def none_over_a_buffer(lib, kit):
    shift = kit.Shift()
    shift.offset = None
    return shift.offset, places(shift, "offset"), list(shift.state_dict())


@scenario
def a_parameter_after_none(lib, kit):
    module = kit.Scale()
    module.weight = None
    module.weight = lib.nn.Parameter(lib.ones(1))
    return module.weight


@scenario("weight")
def a_tensor_over_a_parameter(lib, kit):
    kit.Scale().weight = lib.ones(2)


@scenario("weight", "int")
def a_number_over_a_parameter(lib, kit):
    kit.Scale().weight = 3


@scenario("first", "int")
def a_number_over_a_module(lib, kit):
    kit.Net().first = 3


@scenario("offset", "int")
def a_number_over_a_buffer(lib, kit):
    kit.Shift().offset = 3


@scenario
def a_tensor_over_a_buffer_keeps_it_persistent(lib, kit):
    shift = kit.Shift()
    shift.offset = lib.zeros(3)
    shift.calls = lib.zeros(1)
    return shift._buffers, shift._non_persistent_buffers_set


@scenario
def a_parameter_over_a_module(lib, kit):
    net = kit.Net()
    net.first = lib.nn.Parameter(lib.ones(1))
    return places(net, "first"), list(net._modules), list(net._parameters)


@scenario
def a_buffer_object_registers_itself(lib, kit):
    module = lib.nn.Module()
    module.a = lib.nn.Buffer(lib.ones(1))
    module.b = lib.nn.Buffer(lib.ones(1), persistent=False)
    return places(module, "a"), places(module, "b"), module._non_persistent_buffers_set


@scenario("x")
def a_buffer_object_over_a_plain_attribute(lib, kit):
    module = lib.nn.Module()
    module.x = 3
    module.x = lib.nn.Buffer(lib.ones(1))


@scenario
def a_plain_tensor_stays_plain(lib, kit):
    module = lib.nn.Module()
    module.cache = lib.ones(1)
    return places(module, "cache"), module.state_dict(), list(module.buffers())


@scenario
def a_list_of_modules_stays_plain(lib, kit):
    module = lib.nn.Module()
    module.layers = [kit.Scale()]
    return places(module, "layers"), list(module.parameters())


@scenario
def parameter_before_init(lib, kit):
    class Early(lib.nn.Module):
        def __init__(self):
            self.weight = lib.nn.Parameter(lib.ones(1))

    Early()


@scenario
def module_before_init(lib, kit):
    class Early(lib.nn.Module):
        def __init__(self):
            self.child = kit.Scale()

    Early()


@scenario
def buffer_before_init(lib, kit):
    class Early(lib.nn.Module):
        def __init__(self):
            self.mean = lib.nn.Buffer(lib.ones(1))

    Early()


@scenario
def plain_attribute_before_init(lib, kit):
    class Early(lib.nn.Module):
        def __init__(self):
            self.size = 3
            super().__init__()

    return Early().size


@scenario("missing", "Net")
def a_missing_attribute(lib, kit):
    return kit.Net().missing


@scenario("Early", "missing")
def a_missing_attribute_before_init(lib, kit):
    class Early(lib.nn.Module):
        def __init__(self):
            self.copy = self.missing

    Early()


@scenario
def hasattr_and_getattr_with_default(lib, kit):
    net = kit.Net()
    return hasattr(net, "first"), hasattr(net, "nothing"), getattr(net, "nothing", 7)


@scenario
def deleting_each_kind(lib, kit):
    net, shift = kit.Net(), kit.Shift()
    del net.first
    del net.width
    del shift.calls
    del shift.offset
    scale = kit.Scale()
    del scale.weight
    return (
        list(net._modules), "width" in net.__dict__, shift._buffers,
        shift._non_persistent_buffers_set, scale._parameters,
    )  # fmt: skip


@scenario("nothing")
def deleting_what_is_not_there(lib, kit):
    net = kit.Net()
    del net.nothing


@scenario
def properties_keep_working(lib, kit):
    class Model(lib.nn.Module):
        @property
        def size(self):
            return self._size

        @size.setter
        def size(self, value):
            self._size = value * 2

    model = Model()
    model.size = 3
    return model.size, "size" in model.__dict__


@scenario
def a_property_without_setter(lib, kit):
    class Model(lib.nn.Module):
        @property
        def size(self):
            return 3

    Model().size = 4


@scenario("size")
def a_parameter_over_a_property(lib, kit):
    class Model(lib.nn.Module):
        @property
        def size(self):
            return 3

    Model().size = lib.nn.Parameter(lib.ones(1))


@scenario
def a_module_over_a_method_or_a_property(lib, kit):
    class Model(lib.nn.Module):
        def child(self):
            return "method"

        @property
        def other(self):
            return "property"

    model = Model()
    model.child = model.other = kit.Scale()
    return model.child(), model.other, places(model, "child"), places(model, "other")


@scenario("weight")
def a_parameter_over_a_class_attribute(lib, kit):
    class Model(lib.nn.Module):
        weight = None

    Model().weight = lib.nn.Parameter(lib.ones(1))


@scenario
def dir_names_members_but_no_numbers(lib, kit):
    model = lib.nn.Sequential(kit.Net())
    model.register_buffer("mean", lib.ones(1))
    model.gain = lib.nn.Parameter(lib.ones(1))
    names = dir(model)
    return [each in names for each in ("0", "mean", "gain", "forward", "training")]


@scenario
def a_new_module_has_the_documented_state(lib, kit):
    module = lib.nn.Module()
    return [
        (name, len(value) if hasattr(value, "__len__") else value)
        for name, value in module.__dict__.items()
    ], (module._version, module.dump_patches, module.call_super_init)


@scenario
def a_plain_dictionary_put_in_place_of_a_table(lib, kit):
    net = kit.Net()
    net._modules = {"only": net.first}
    net._modules["more"] = kit.Echo()
    return list(net.named_children()), net.only, list(net.named_parameters())


@scenario
def direct_mutation_of_tables(lib, kit):
    net = kit.Net()
    net._modules["third"] = kit.Scale()
    net._modules.pop("second")
    net._parameters["gain"] = lib.nn.Parameter(lib.ones(1))
    net._buffers.update(mean=lib.ones(1))
    return list(net.state_dict()), net.third, net.gain


@scenario
def a_shallow_copy_shares_members(lib, kit):
    net = kit.Net()
    other = copy.copy(net)
    other.width = 5
    return other.first is net.first, net.width, other._modules is net._modules


@scenario
def a_deep_copy_shares_nothing(lib, kit):
    net = kit.Net()
    other = copy.deepcopy(net)
    return (
        other.first is net.first, other.first.weight is net.first.weight,
        other.state_dict(), other.first.weight.requires_grad,
    )  # fmt: skip


@scenario
def a_deep_copy_keeps_ties(lib, kit):
    net = lib.nn.Module()
    net.a = kit.Scale()
    net.b = net.a
    net.c = kit.Scale()
    net.c.weight = net.a.weight
    other = copy.deepcopy(net)
    return other.a is other.b, other.c.weight is other.a.weight


@scenario
def a_deep_copy_keeps_hooks(lib, kit):
    seen = []
    net = kit.Net()
    net.register_forward_hook(lambda module, args, output: seen.append("called"))
    copy.deepcopy(net)(lib.ones(2))
    return seen


@scenario
def pickling_keeps_everything(lib, kit):
    model = lib.nn.Sequential(lib.nn.Sequential(), lib.nn.ModuleDict({"a": lib.nn.ModuleList()}))
    model.register_buffer("mean", lib.ones(2), persistent=False)
    model.gain = lib.nn.Parameter(lib.ones(1), requires_grad=False)
    model.eval()
    other = pickle.loads(pickle.dumps(model))
    return (
        repr(other), other.training, other._non_persistent_buffers_set,
        list(other.named_buffers()), list(other.named_parameters()), other.gain.requires_grad,
    )  # fmt: skip


@scenario
def setstate_of_an_older_pickle(lib, kit):
    net = kit.Net()
    state = net.__getstate__()
    for name in (
        "_forward_pre_hooks", "_forward_hooks_with_kwargs", "_state_dict_hooks",
        "_load_state_dict_post_hooks", "_non_persistent_buffers_set", "_backward_pre_hooks",
    ):  # fmt: skip
        state.pop(name, None)
    other = kit.Net.__new__(kit.Net)
    other.__setstate__(state)
    return other(lib.ones(2)), other._forward_pre_hooks, list(other.state_dict())


@scenario
def repr_of_nested_modules(lib, kit):
    return repr(lib.nn.Sequential(kit.Net(), kit.Echo()))


@scenario
def repr_with_extra_lines(lib, kit):
    class One(lib.nn.Module):
        def extra_repr(self):
            return "size=3"

    class Two(lib.nn.Module):
        def extra_repr(self):
            return "size=3\nname=x"

    class Three(One):
        def __init__(self):
            super().__init__()
            self.child = Two()

    return repr(One()), repr(Two()), repr(Three())
