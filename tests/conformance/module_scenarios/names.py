"""A name that means one thing after another."""

import copy

from tests.conformance.scenario import Table

scenario = Table()


@scenario
def modules_in_plain_containers_are_not_members(lib, kit):
    module = kit.Echo()
    module.listed = [kit.Scale()]
    module.named = {"a": kit.Scale()}
    module.fixed = (lib.nn.Parameter(lib.ones(1)),)
    module.to(lib.float64)
    return (
        list(module.state_dict()),
        module.listed[0].weight,
        [name for name, _ in module.named_modules()],
        copy.deepcopy(module).listed[0] is module.listed[0],
    )


@scenario
def a_name_deleted_and_used_again(lib, kit):
    module = kit.Scale()
    del module.weight
    found = [hasattr(module, "weight")]
    module.weight = 3
    found.append(module.__dict__["weight"])
    module.weight = lib.nn.Parameter(lib.ones(1))
    found.append("weight" in module.__dict__)
    return found


@scenario("weight")
def a_buffer_over_a_parameter(lib, kit):
    module = kit.Scale()
    module.weight = lib.nn.Buffer(lib.ones(1))


@scenario
def a_name_that_was_a_module_and_a_parameter(lib, kit):
    module = kit.Net()
    module.first = lib.nn.Parameter(lib.ones(1))
    module.first = None
    return list(module._modules), dict(module._parameters)


@scenario
def a_parameter_over_a_buffer_that_is_not_saved(lib, kit):
    module = kit.Shift()
    module.calls = lib.nn.Parameter(lib.ones(1))
    return (
        list(module._parameters),
        list(module._buffers),
        module._non_persistent_buffers_set,
        list(module.state_dict()),
    )


@scenario
def a_buffer_object_decides_about_saving(lib, kit):
    module = kit.Shift()
    module.calls = lib.nn.Buffer(lib.ones(1))
    return module._non_persistent_buffers_set


@scenario
def a_parameter_over_the_training_flag(lib, kit):
    module = kit.Echo()
    module.training = lib.nn.Parameter(lib.ones(1))
    return list(module._parameters), module.training


@scenario
def a_module_over_forward(lib, kit):
    module = kit.Echo()
    module.forward = kit.Echo()
    return list(module._modules), module(1)


@scenario
def a_module_under_a_name_with_a_dot(lib, kit):
    module = kit.Echo()
    setattr(module, "a.b", kit.Echo())
    return list(module._modules)


@scenario
def a_parameter_under_a_name_with_a_dot(lib, kit):
    module = kit.Echo()
    setattr(module, "a.b", lib.nn.Parameter(lib.ones(1)))


@scenario
def a_module_registration_hook_sees_none(lib, kit):
    log = []
    handle = lib.nn.modules.module.register_module_module_registration_hook(
        lambda module, name, member: log.append((name, member is None))
    )
    module = kit.Net()
    module.first = None
    module.add_module("x", None)
    handle.remove()
    return log


@scenario
def a_parameter_registration_hook_does_not_see_none(lib, kit):
    log = []
    handle = lib.nn.modules.module.register_module_parameter_registration_hook(
        lambda module, name, member: log.append((name, member is None))
    )
    module = kit.Scale()
    module.weight = None
    module.register_parameter("other", None)
    handle.remove()
    return log


@scenario
def a_buffer_registration_hook_sees_none(lib, kit):
    log = []
    handle = lib.nn.modules.module.register_module_buffer_registration_hook(
        lambda module, name, member: log.append((name, member is None))
    )
    module = kit.Shift()
    module.offset = None
    module.register_buffer("other", None)
    handle.remove()
    return log


@scenario
def a_deleted_buffer_that_was_not_saved_is_saved_again(lib, kit):
    module = kit.Shift()
    del module.calls
    module.register_buffer("calls", lib.ones(1))
    return list(module.state_dict())
