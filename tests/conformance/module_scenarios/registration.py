"""Registering parameters, buffers and modules by name."""

from tests.conformance.scenario import Table

scenario = Table()


@scenario
def register_parameter_makes_an_attribute(lib, kit):
    module = lib.nn.Module()
    module.register_parameter("weight", lib.nn.Parameter(lib.ones(2)))
    return module.weight, list(module._parameters), "weight" in module.__dict__


@scenario
def register_parameter_none_keeps_the_name(lib, kit):
    module = lib.nn.Module()
    module.register_parameter("bias", None)
    return module.bias, module._parameters, list(module.named_parameters())


@scenario("weight")
def register_parameter_of_a_plain_tensor(lib, kit):
    lib.nn.Module().register_parameter("weight", lib.ones(2))


@scenario("weight")
def register_parameter_of_a_number(lib, kit):
    lib.nn.Module().register_parameter("weight", 3)


@scenario
def register_parameter_with_an_empty_name(lib, kit):
    lib.nn.Module().register_parameter("", lib.nn.Parameter(lib.ones(2)))


@scenario
def register_parameter_with_a_dot(lib, kit):
    lib.nn.Module().register_parameter("a.b", lib.nn.Parameter(lib.ones(2)))


@scenario("int")
def register_parameter_with_a_number_as_name(lib, kit):
    lib.nn.Module().register_parameter(3, lib.nn.Parameter(lib.ones(2)))


@scenario("forward")
def register_parameter_over_a_method(lib, kit):
    lib.nn.Module().register_parameter("forward", lib.nn.Parameter(lib.ones(2)))


@scenario("width")
def register_parameter_over_a_plain_attribute(lib, kit):
    kit.Net().register_parameter("width", lib.nn.Parameter(lib.ones(2)))


@scenario("offset")
def register_parameter_over_a_buffer(lib, kit):
    kit.Shift().register_parameter("offset", lib.nn.Parameter(lib.ones(2)))


@scenario
def register_parameter_again_replaces_it(lib, kit):
    module = kit.Scale()
    module.register_parameter("weight", lib.nn.Parameter(lib.ones(1)))
    return list(module.named_parameters())


@scenario("weight")
def register_parameter_that_is_no_leaf(lib, kit):
    module = lib.nn.Module()
    parameter = lib.nn.Parameter(lib.ones(2))
    product = (parameter * 2).as_subclass(lib.nn.Parameter)
    module.register_parameter("weight", product)


@scenario
def register_parameter_before_init(lib, kit):
    class Early(lib.nn.Module):
        def __init__(self):
            self.register_parameter("weight", lib.nn.Parameter(lib.ones(2)))

    Early()


@scenario
def register_buffer_makes_an_attribute(lib, kit):
    module = lib.nn.Module()
    module.register_buffer("mean", lib.ones(2))
    return module.mean, list(module._buffers), module._non_persistent_buffers_set


@scenario
def register_buffer_not_persistent(lib, kit):
    module = lib.nn.Module()
    module.register_buffer("mean", lib.ones(2), persistent=False)
    return module.mean, module._non_persistent_buffers_set, module.state_dict()


@scenario
def register_buffer_again_changes_persistence(lib, kit):
    module = kit.Shift()
    module.register_buffer("calls", lib.ones(1))
    module.register_buffer("offset", lib.ones(1), persistent=False)
    return module._non_persistent_buffers_set, list(module.state_dict())


@scenario
def register_buffer_none_keeps_the_name(lib, kit):
    module = lib.nn.Module()
    module.register_buffer("mean", None)
    return module.mean, module._buffers, list(module.named_buffers()), module.state_dict()


@scenario("mean", "int")
def register_buffer_of_a_number(lib, kit):
    lib.nn.Module().register_buffer("mean", 3)


@scenario
def register_buffer_with_an_empty_name(lib, kit):
    lib.nn.Module().register_buffer("", lib.ones(2))


@scenario
def register_buffer_with_a_dot(lib, kit):
    lib.nn.Module().register_buffer("a.b", lib.ones(2))


@scenario("int")
def register_buffer_with_a_number_as_name(lib, kit):
    lib.nn.Module().register_buffer(3, lib.ones(2))


@scenario("weight")
def register_buffer_over_a_parameter(lib, kit):
    kit.Scale().register_buffer("weight", lib.ones(2))


@scenario("training")
def register_buffer_over_the_training_flag(lib, kit):
    lib.nn.Module().register_buffer("training", lib.ones(2))


@scenario
def register_buffer_before_init(lib, kit):
    class Early(lib.nn.Module):
        def __init__(self):
            self.register_buffer("mean", lib.ones(2))

    Early()


@scenario
def register_a_parameter_as_buffer(lib, kit):
    module = lib.nn.Module()
    module.register_buffer("mean", lib.nn.Parameter(lib.ones(2)))
    return module._buffers, module._parameters


@scenario
def add_module_makes_an_attribute(lib, kit):
    module = lib.nn.Module()
    module.add_module("child", kit.Scale())
    return module.child, list(module._modules), "child" in module.__dict__


@scenario
def register_module_is_add_module(lib, kit):
    module = lib.nn.Module()
    module.register_module("child", kit.Scale())
    return module.child, list(module._modules)


@scenario
def add_module_none_keeps_the_name(lib, kit):
    module = lib.nn.Module()
    module.add_module("child", None)
    return module.child, module._modules, list(module.named_children()), repr(module)


@scenario("int")
def add_module_of_a_number(lib, kit):
    lib.nn.Module().add_module("child", 3)


@scenario
def add_module_of_a_class(lib, kit):
    lib.nn.Module().add_module("child", kit.Scale)


@scenario("int")
def add_module_with_a_number_as_name(lib, kit):
    lib.nn.Module().add_module(3, kit.Scale())


@scenario
def add_module_with_an_empty_name(lib, kit):
    lib.nn.Module().add_module("", kit.Scale())


@scenario("a.b")
def add_module_with_a_dot(lib, kit):
    lib.nn.Module().add_module("a.b", kit.Scale())


@scenario("train")
def add_module_over_a_method(lib, kit):
    lib.nn.Module().add_module("train", kit.Scale())


@scenario
def add_module_again_replaces_it_in_place(lib, kit):
    module = kit.Net()
    module.add_module("first", kit.Echo())
    return list(module.named_children())


@scenario
def hooks_on_registration_see_everything(lib, kit):
    seen = []
    hooks = lib.nn.modules.module
    hooks.register_module_parameter_registration_hook(
        lambda module, name, value: seen.append(("parameter", name, value))
    )
    hooks.register_module_buffer_registration_hook(
        lambda module, name, value: seen.append(("buffer", name, value))
    )
    hooks.register_module_module_registration_hook(
        lambda module, name, value: seen.append(("module", name, value))
    )
    net = kit.Net()
    net.first = None
    net.extra = lib.nn.Parameter(lib.ones(1))
    net.extra = None
    net.second.offset = lib.zeros(2)
    return seen


@scenario
def a_registration_hook_replaces_a_parameter(lib, kit):
    handle = lib.nn.modules.module.register_module_parameter_registration_hook(
        lambda module, name, value: lib.nn.Parameter(value.detach() * 10)
    )
    first = kit.Scale().weight
    handle.remove()
    return first, kit.Scale().weight


@scenario
def a_registration_hook_replaces_a_module(lib, kit):
    hooks = lib.nn.modules.module
    hooks.register_module_module_registration_hook(lambda module, name, value: kit.Echo())
    return list(kit.Net().named_children())


@scenario
def a_registration_hook_replaces_a_buffer(lib, kit):
    hooks = lib.nn.modules.module
    hooks.register_module_buffer_registration_hook(lambda module, name, value: lib.ones(1))
    return list(kit.Shift().named_buffers())


@scenario
def registration_hooks_run_in_order(lib, kit):
    seen = []
    hooks = lib.nn.modules.module
    for number in range(3):
        hooks.register_module_module_registration_hook(
            lambda module, name, value, number=number: seen.append((number, name))
        )
    kit.Net()
    return seen


@scenario("size")
def init_with_a_keyword(lib, kit):
    lib.nn.Module(size=3)


@scenario
def init_with_an_argument(lib, kit):
    lib.nn.Module(3)


@scenario
def call_super_init_passes_arguments_on(lib, kit):
    class Other:
        def __init__(self, size):
            self.size = size

    class Both(lib.nn.Module, Other):
        call_super_init = True

    both = Both(3)
    return both.size, both.training, list(both._modules)
