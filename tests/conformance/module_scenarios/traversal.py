"""Walking the tree of modules, and finding members by path."""

from tests.conformance.scenario import Table

scenario = Table()


def tied(lib, kit):
    """A module reached by two names, and a parameter reached by three."""
    model = lib.nn.Module()
    model.a = kit.Scale()
    model.b = model.a
    model.c = kit.Scale()
    model.c.weight = model.a.weight
    return model


@scenario
def named_modules_in_preorder(lib, kit):
    return list(kit.Deep().named_modules())


@scenario
def named_modules_with_prefix(lib, kit):
    return list(kit.Deep().named_modules(prefix="top"))


@scenario
def named_modules_once_each(lib, kit):
    return list(tied(lib, kit).named_modules())


@scenario
def named_modules_with_duplicates(lib, kit):
    return list(tied(lib, kit).named_modules(remove_duplicate=False))


@scenario
def named_modules_with_memo(lib, kit):
    model = kit.Deep()
    memo = {model.net.first}
    return list(model.named_modules(memo=memo)), len(memo)


@scenario
def named_modules_with_itself_in_the_memo(lib, kit):
    model = kit.Deep()
    return list(model.named_modules(memo={model}))


@scenario
def named_modules_of_a_cycle(lib, kit):
    model = kit.Net()
    model.first.parent = model
    return list(model.named_modules())


@scenario
def named_modules_passes_over_none(lib, kit):
    model = kit.Net()
    model.first = None
    return list(model.named_modules()), list(model.children())


@scenario
def named_modules_overridden_in_a_child(lib, kit):
    class Hidden(kit.Net):
        def named_modules(self, memo=None, prefix="", remove_duplicate=True):
            yield prefix + "!", self

    return list(lib.nn.Sequential(kit.Scale(), Hidden(), kit.Scale()).named_modules())


@scenario
def named_modules_replacing_while_walking(lib, kit):
    model = kit.Deep()
    seen = []
    for name, _ in model.named_modules():
        seen.append(name)
        if name == "net":
            model.net.first = kit.Net()
    return seen


@scenario
def adding_modules_while_walking(lib, kit):
    model = kit.Net()
    for name, _ in model.named_modules():
        model.add_module(name + "x", kit.Echo())


@scenario
def modules_and_children(lib, kit):
    model = tied(lib, kit)
    return (
        list(model.modules()), list(model.modules(remove_duplicate=False)),
        list(model.children()), list(model.named_children()),
    )  # fmt: skip


@scenario
def named_parameters_of_a_tree(lib, kit):
    model = kit.Deep()
    return list(model.named_parameters()), list(model.named_parameters(prefix="p"))


@scenario
def named_parameters_without_recursion(lib, kit):
    model = kit.Deep()
    return list(model.named_parameters(recurse=False)), list(model.parameters(recurse=False))


@scenario
def named_parameters_of_tied_modules(lib, kit):
    model = tied(lib, kit)
    return (
        [name for name, _ in model.named_parameters()],
        [name for name, _ in model.named_parameters(remove_duplicate=False)],
    )


@scenario
def parameters_go_through_an_overridden_named_parameters(lib, kit):
    class Frozen(kit.Net):
        def named_parameters(self, prefix="", recurse=True, remove_duplicate=True):
            for name, each in super().named_parameters(prefix, recurse, remove_duplicate):
                if not name.startswith("first"):
                    yield name, each

    return list(Frozen().parameters())


@scenario
def named_buffers_of_a_tree(lib, kit):
    model = kit.Deep()
    return (
        list(model.named_buffers()), list(model.named_buffers(prefix="p")),
        list(model.named_buffers(recurse=False)), list(model.buffers()),
    )  # fmt: skip


@scenario
def named_buffers_of_a_shared_buffer(lib, kit):
    model = lib.nn.Module()
    shared = lib.ones(1)
    model.register_buffer("a", shared)
    model.register_buffer("b", shared)
    return (
        [name for name, _ in model.named_buffers()],
        [name for name, _ in model.named_buffers(remove_duplicate=False)],
    )


@scenario
def apply_goes_children_first(lib, kit):
    seen = []
    model = kit.Deep()
    result = model.apply(lambda module: seen.append(type(module).__name__))
    return seen, result is model


@scenario
def train_and_eval_reach_everything(lib, kit):
    model = kit.Deep()
    states = []
    for change in (model.eval, model.train, lambda: model.train(False)):
        returned = change()
        states.append(([module.training for module in model.modules()], returned is model))
    return states


@scenario
def train_with_something_else_than_a_bool(lib, kit):
    kit.Net().train(1)


@scenario
def train_respects_overrides_in_children(lib, kit):
    class Frozen(kit.Net):
        def train(self, mode=True):
            super().train(mode)
            self.first.train(False)
            return self

    model = lib.nn.Sequential(kit.Scale(), Frozen())
    model.train()
    return [(name, module.training) for name, module in model.named_modules()]


@scenario
def train_respects_a_method_replaced_on_an_instance(lib, kit):
    model = kit.Deep()
    model.eval()
    model.net.train = lambda mode=True: model.net
    model.train()
    return [(name, module.training) for name, module in model.named_modules()]


@scenario
def train_with_a_training_property(lib, kit):
    changes = []

    class Counting(lib.nn.Module):
        @property
        def training(self):
            return "asked"

        @training.setter
        def training(self, value):
            changes.append(value)

    model = lib.nn.Sequential(Counting())
    model.eval()
    return changes, model[0].training


@scenario
def requires_grad_of_a_tree(lib, kit):
    model = kit.Deep()
    result = model.requires_grad_(False)
    return [each.requires_grad for each in model.parameters()], result is model


@scenario
def zero_grad_to_none(lib, kit):
    model = kit.Scale()
    model(lib.ones(2)).sum().backward()
    before = model.weight.grad
    return before, model.zero_grad(), model.weight.grad


@scenario
def zero_grad_to_zeros(lib, kit):
    model = kit.Scale()
    model(lib.ones(2)).sum().backward()
    grad = model.weight.grad
    model.zero_grad(set_to_none=False)
    return model.weight.grad, model.weight.grad is grad


@scenario
def get_submodule_by_path(lib, kit):
    model = kit.Deep()
    return model.get_submodule("net.first"), model.get_submodule("") is model


@scenario("nothing")
def get_submodule_that_is_not_there(lib, kit):
    kit.Deep().get_submodule("net.nothing")


@scenario("width")
def get_submodule_that_is_no_module(lib, kit):
    kit.Deep().get_submodule("net.width")


@scenario("weight")
def get_submodule_through_a_parameter(lib, kit):
    kit.Deep().get_submodule("net.first.weight.x")


@scenario
def get_parameter_by_path(lib, kit):
    model = kit.Deep()
    return model.get_parameter("net.first.weight"), model.get_parameter("bias")


@scenario("offset")
def get_parameter_that_is_a_buffer(lib, kit):
    kit.Deep().get_parameter("net.second.offset")


@scenario("nothing")
def get_parameter_that_is_not_there(lib, kit):
    kit.Deep().get_parameter("net.first.nothing")


@scenario
def get_buffer_by_path(lib, kit):
    return kit.Deep().get_buffer("net.second.offset")


@scenario("weight")
def get_buffer_that_is_a_parameter(lib, kit):
    kit.Deep().get_buffer("net.first.weight")


@scenario("nothing")
def get_buffer_that_is_not_there(lib, kit):
    kit.Deep().get_buffer("net.nothing")


@scenario
def set_submodule_replaces(lib, kit):
    model = kit.Deep()
    model.set_submodule("net.first", kit.Echo())
    model.set_submodule("top", kit.Scale())
    return list(model.named_modules())


@scenario
def set_submodule_strictly(lib, kit):
    model = kit.Deep()
    model.set_submodule("net.first", kit.Echo(), strict=True)
    return model.net.first


@scenario("nothing")
def set_submodule_strictly_where_nothing_is(lib, kit):
    kit.Deep().set_submodule("net.nothing", kit.Echo(), strict=True)


@scenario
def set_submodule_without_path(lib, kit):
    kit.Deep().set_submodule("", kit.Echo())


@scenario("int")
def set_submodule_to_a_number(lib, kit):
    kit.Deep().set_submodule("net", 3)


@scenario("width")
def set_submodule_over_a_plain_attribute(lib, kit):
    kit.Deep().set_submodule("net.width", kit.Echo())


@scenario("gone")
def set_submodule_under_nothing(lib, kit):
    kit.Deep().set_submodule("gone.first", kit.Echo())


@scenario
def named_members_of_ones_own(lib, kit):
    module = kit.Deep()
    children = module._named_members(lambda each: each._modules.items())
    pairs = [("one", 1), ("none", None), ("one", 1)]
    own = module._named_members(lambda each: pairs, "prefix", False, False)
    return [name for name, _ in children], list(own)


@scenario
def named_members_overridden(lib, kit):
    class Renamed(kit.Scale):
        def _named_members(self, *args, **kwargs):
            for name, member in super()._named_members(*args, **kwargs):
                yield f"renamed.{name}", member

    return [name for name, _ in Renamed().named_parameters()], list(Renamed().state_dict())


@scenario
def odd_paths(lib, kit):
    module, found = kit.Deep(), []
    for path in ("", "net.", "..", ".net", "net..first", "net.first.weight.data", "forward", None):
        for get in (module.get_submodule, module.get_parameter, module.get_buffer):
            try:
                found.append(type(get(path)).__name__)
            except (AttributeError, TypeError) as error:
                found.append(type(error).__name__)
    return found


@scenario
def named_children_overridden_without_members(lib, kit):
    class Wrapper(lib.nn.Module):
        def __init__(self):
            super().__init__()
            self.__dict__["hidden"] = kit.Scale()

        def named_children(self):
            yield "hidden", self.hidden

    module = Wrapper().eval().double()
    return module.hidden.training, module.hidden.weight.dtype, len(list(module.parameters()))
