"""Subclasses that override, mix in and describe: what real models do to `Module`."""

import dataclasses
import functools
from typing import Generic, TypeVar

from tests.conformance.scenario import Table

scenario = Table()

Item = TypeVar("Item")


@scenario
def setattr_overridden_sees_every_assignment(lib, kit):
    log = []

    class Model(lib.nn.Module):
        def __setattr__(self, name, value):
            log.append((name, type(value).__name__))
            super().__setattr__(name, value)

        def __init__(self):
            super().__init__()
            self.a = lib.nn.Parameter(lib.ones(1))
            self.b = 3
            self.c = kit.Echo()
            self.d = lib.nn.Buffer(lib.ones(1))

    module = Model()
    module.train()
    module.eval()
    module.to(lib.float64)
    return (
        [entry for entry in log if not entry[0].startswith("_")],
        [name for name, _ in module.named_parameters()],
    )


@scenario
def setattr_overridden_under_another_name(lib, kit):
    class Model(lib.nn.Module):
        def __setattr__(self, name, value):
            if isinstance(value, lib.nn.Parameter):
                name = name + "_p"
            super().__setattr__(name, value)

    module = Model()
    module.w = lib.nn.Parameter(lib.ones(1))
    return list(module._parameters), hasattr(module, "w")


@scenario
def getattr_overridden_as_wrappers_do(lib, kit):
    class Wrapper(lib.nn.Module):
        def __init__(self, module):
            super().__init__()
            self.wrapped = module

        def __getattr__(self, name):
            try:
                return super().__getattr__(name)
            except AttributeError:
                return getattr(self.wrapped, name)

    wrapper = Wrapper(kit.Net())
    found = [type(wrapper.first).__name__, wrapper.width, hasattr(wrapper, "nope")]
    try:
        wrapper.register_buffer("width", lib.ones(1))
        found.append("registered")
    except KeyError:
        found.append("KeyError")
    try:
        wrapper.add_module("first", kit.Echo())
        found.append("registered")
    except KeyError:
        found.append("KeyError")
    wrapper.first = kit.Echo()
    found.append(list(wrapper._modules))
    return found


@scenario
def getattribute_overridden_names_are_taken(lib, kit):
    class Wrapper(lib.nn.Module):
        def __getattribute__(self, name):
            if name == "magic":
                return 42
            return super().__getattribute__(name)

    wrapper = Wrapper()
    found = [wrapper.magic]
    try:
        wrapper.register_buffer("magic", lib.ones(1))
        found.append("registered")
    except KeyError:
        found.append("KeyError")
    return found


@scenario("bad")
def a_property_that_raises_attribute_error(lib, kit):
    class Model(lib.nn.Module):
        @property
        def bad(self):
            return self.nope

    return Model().bad


@scenario
def a_property_with_setter_and_a_parameter(lib, kit):
    class Model(lib.nn.Module):
        @property
        def weight(self):
            return self._kept

        @weight.setter
        def weight(self, value):
            self._kept = value

    module = Model()
    module.weight = lib.ones(1)
    found = [list(module._parameters), list(module.__dict__)[-1]]
    module.weight = lib.nn.Parameter(lib.ones(1))
    return found, list(module._parameters)


@scenario
def a_property_with_setter_and_a_module(lib, kit):
    class Model(lib.nn.Module):
        @property
        def child(self):
            return self._kept

        @child.setter
        def child(self, value):
            self._kept = value

    module = Model()
    module.child = kit.Echo()
    return list(module._modules), hasattr(module, "_kept")


@scenario
def a_descriptor_in_the_class(lib, kit):
    class Descriptor:
        def __get__(self, owner, kind=None):
            return 7 if owner is not None else self

        def __set__(self, owner, value):
            owner.__dict__["hidden"] = value

    class Model(lib.nn.Module):
        seven = Descriptor()

    module = Model()
    module.seven = 3
    found = [module.seven, module.hidden]
    module.seven = kit.Echo()
    found += [module.seven, list(module._modules)]
    return found


@scenario
def a_cached_property_that_makes_a_module(lib, kit):
    class Model(lib.nn.Module):
        @functools.cached_property
        def child(self):
            return kit.Echo()

    module = Model()
    child = module.child
    return list(module._modules), child is module.child


@scenario
def a_class_with_slots(lib, kit):
    class Model(lib.nn.Module):
        __slots__ = ("x", "y")

        def __init__(self):
            super().__init__()
            self.x = 3

    module = Model()
    found = [module.x, "x" in module.__dict__, hasattr(module, "y")]
    module.y = kit.Echo()
    found.append(list(module._modules))
    del module.x
    found.append(hasattr(module, "x"))
    return found


@scenario
def a_parameter_over_a_slot(lib, kit):
    class Model(lib.nn.Module):
        __slots__ = ("w",)

    module = Model()
    module.w = 3
    module.w = lib.nn.Parameter(lib.ones(1))
    return list(module._parameters), module.w


@scenario
def a_parameter_of_the_class_is_not_registered(lib, kit):
    class Model(lib.nn.Module):
        weight = lib.nn.Parameter(lib.ones(2))
        child = kit.Echo()

    module = Model()
    return list(module._parameters), module.weight, list(module._modules)


@scenario
def a_class_attribute_none_hides_the_parameter(lib, kit):
    class Model(lib.nn.Module):
        weight: object = None

        def __init__(self):
            super().__init__()
            self.weight = lib.nn.Parameter(lib.ones(1))

    module = Model()
    return module.weight, list(module._parameters)


@scenario("weight")
def register_parameter_over_a_class_attribute(lib, kit):
    class Model(lib.nn.Module):
        weight: object = None

    module = Model()
    module.register_parameter("weight", lib.nn.Parameter(lib.ones(1)))


@scenario
def a_dataclass_that_calls_init_afterwards(lib, kit):
    @dataclasses.dataclass(eq=False)
    class Model(lib.nn.Module):
        size: int

        def __post_init__(self):
            super().__init__()
            self.weight = lib.nn.Parameter(lib.ones(self.size))

    module = Model(3)
    return module.weight, module.size, list(module.state_dict())


@scenario
def a_dataclass_with_a_module_as_field(lib, kit):
    @dataclasses.dataclass(eq=False)
    class Model(lib.nn.Module):
        child: object

        def __post_init__(self):
            super().__init__()

    Model(kit.Echo())


@scenario
def a_dataclass_initialized_in_new(lib, kit):
    @dataclasses.dataclass(eq=False)
    class Model(lib.nn.Module):
        child: object

        def __new__(cls, *args, **kwargs):
            made = super().__new__(cls)
            lib.nn.Module.__init__(made)
            return made

    module = Model(kit.Echo())
    return list(module._modules), repr(module)


@scenario
def a_dataclass_without_hash(lib, kit):
    @dataclasses.dataclass
    class Model(lib.nn.Module):
        size: int

        def __post_init__(self):
            super().__init__()

    module = Model(3)
    return [name for name, _ in module.named_modules()]


@scenario
def a_generic_class(lib, kit):
    class Model(lib.nn.Module, Generic[Item]):
        def forward(self, input):
            return input

    module = Model[int]()
    return module(3), module.__orig_class__ is not None


@scenario
def a_mixin_after_module_with_call_super_init(lib, kit):
    log = []

    class Mixin:
        def __init__(self, *args, **kwargs):
            log.append(("mix", args, kwargs))
            self.mixed = 1
            super().__init__()

    class Model(lib.nn.Module, Mixin):
        call_super_init = True

        def __init__(self):
            super().__init__(1, x=2)

    module = Model()
    return log, module.mixed, module.training


@scenario
def a_mixin_after_module_is_not_initialized(lib, kit):
    class Mixin:
        def __init__(self):
            self.mixed = 1

    class Model(lib.nn.Module, Mixin):
        def __init__(self):
            super().__init__()

    return hasattr(Model(), "mixed")


@scenario
def a_mixin_before_module(lib, kit):
    class Mixin:
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            self.weight = lib.nn.Parameter(lib.ones(1))

    class Model(Mixin, lib.nn.Module):
        pass

    return [name for name, _ in Model().named_parameters()]


@scenario("parameter")
def a_mixin_that_assigns_too_early(lib, kit):
    class Mixin:
        def __init__(self, *args, **kwargs):
            self.weight = lib.nn.Parameter(lib.ones(1))
            super().__init__(*args, **kwargs)

    class Model(Mixin, lib.nn.Module):
        pass

    Model()


@scenario
def a_mixin_with_call_impl(lib, kit):
    class Mixin:
        def _call_impl(self, *args, **kwargs):
            return "mix", super()._call_impl(*args, **kwargs)

    class Model(Mixin, lib.nn.Module):
        def forward(self, input):
            return input

    return Model()(3)


@scenario
def a_mixin_with_call(lib, kit):
    class Mixin:
        def __call__(self, *args, **kwargs):
            return "mix", super().__call__(*args, **kwargs)

    class Model(Mixin, lib.nn.Module):
        def forward(self, input):
            return input

    module = Model()
    found = [module(3)]
    module.register_forward_hook(lambda *args: 9)
    found.append(module(3))
    return found


@scenario
def a_mixin_with_forward(lib, kit):
    class Mixin:
        def forward(self, input):
            return input + 1

    class Model(Mixin, lib.nn.Module):
        pass

    return Model()(3)


@scenario
def a_mixin_with_forward_after_module(lib, kit):
    class Mixin:
        def forward(self, input):
            return input + 1

    class Model(lib.nn.Module, Mixin):
        pass

    return Model()(3)


@scenario
def call_replaced_in_a_class(lib, kit):
    class Model(lib.nn.Module):
        def forward(self, input):
            return input

    module = Model()
    old = Model.__call__
    Model.__call__ = lambda self, input: ("patched", old(self, input))
    return module(3)


@scenario
def init_called_late_keeps_plain_attributes(lib, kit):
    class Model(lib.nn.Module):
        def __init__(self):
            self.width = 3
            super().__init__()

    return Model().width


@scenario
def init_called_twice_forgets_members(lib, kit):
    module = kit.Scale()
    lib.nn.Module.__init__(module)
    return list(module._parameters)


@scenario
def modules_are_equal_to_themselves_only(lib, kit):
    one, other = kit.Echo(), kit.Echo()
    return one == other, one == one, len({one, other})


@scenario
def forward_that_assigns(lib, kit):
    class Model(lib.nn.Module):
        def forward(self, input):
            self.last = input
            self.extra = kit.Echo()
            return input

    module = Model()
    module(lib.ones(1))
    module(lib.zeros(1))
    return module.last, list(module._modules)


@scenario
def a_metaclass_that_adds_an_attribute(lib, kit):
    class Meta(type):
        def __call__(cls, *args, **kwargs):
            made = super().__call__(*args, **kwargs)
            made.post = 1
            return made

    class Model(lib.nn.Module, metaclass=Meta):
        pass

    return Model().post


@scenario
def keywords_of_a_class_definition(lib, kit):
    class Base(lib.nn.Module):
        def __init_subclass__(cls, tag=None, **kwargs):
            super().__init_subclass__(**kwargs)
            cls.tag = tag

    class Model(Base, tag=5):
        def forward(self, input):
            return input

    return Model.tag, Model()(1)


def uses_before_init(lib):
    """What can be done with a module, by name."""
    return {
        "call": lambda module: module(1),
        "state_dict": lambda module: module.state_dict(),
        "load_state_dict": lambda module: module.load_state_dict({}),
        "parameters": lambda module: list(module.parameters()),
        "buffers": lambda module: list(module.buffers()),
        "modules": lambda module: list(module.modules()),
        "to": lambda module: module.to("cpu"),
        "double": lambda module: module.double(),
        "eval": lambda module: module.eval(),
        "zero_grad": lambda module: module.zero_grad(),
        "apply": lambda module: module.apply(print),
        "repr": lambda module: repr(module),
        "dir": lambda module: dir(module),
        "hook": lambda module: module.register_forward_hook(print),
        "backward hook": lambda module: module.register_full_backward_hook(print),
        "get_submodule": lambda module: module.get_submodule("child"),
    }


@scenario
def every_use_before_init(lib, kit):
    class Empty(lib.nn.Module):
        def __init__(self):
            pass

        def forward(self, input):
            return input

    found = {}
    for name, use in uses_before_init(lib).items():
        try:
            found[name] = use(Empty())
        except (AttributeError, KeyError) as error:
            found[name] = type(error).__name__
    return found


@scenario
def classes_that_are_containers_too(lib, kit):
    class Mapping(lib.nn.Module, dict):
        pass

    module = Mapping()
    module["key"] = 1
    module.weight = lib.nn.Parameter(lib.ones(1))
    return dict(module), list(module._parameters), module["key"]


@scenario
def a_module_of_length_zero(lib, kit):
    class Empty(kit.Scale):
        def __len__(self):
            return 0

    chain = lib.nn.Sequential(Empty())
    chain[0].register_full_backward_hook(lambda module, grads, _: (grads[0] * 2,))
    chain[0].register_load_state_dict_pre_hook(lambda *given: None)
    chain.load_state_dict(chain.state_dict())
    input = lib.ones(2, requires_grad=True)
    chain(input).sum().backward()
    return input.grad, list(chain.state_dict()), len(list(chain.modules()))


@scenario
def registration_overridden(lib, kit):
    log = []

    class Model(lib.nn.Module):
        def register_parameter(self, name, parameter):
            log.append(name)
            super().register_parameter(name, parameter)

        def register_buffer(self, name, buffer, persistent=True):
            log.append((name, persistent))
            super().register_buffer(name, buffer, persistent)

        def add_module(self, name, module):
            log.append(name)
            super().add_module(name, module)

    module = Model()
    module.weight = lib.nn.Parameter(lib.ones(1))
    module.weight = None
    module.mean = lib.nn.Buffer(lib.ones(1), persistent=False)
    module.mean = lib.zeros(1)
    module.child = kit.Echo()
    module.register_module("other", kit.Echo())
    return log
