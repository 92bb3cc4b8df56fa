"""Saving and loading the state of a tree of modules."""

import copy
import pickle
from collections import OrderedDict

from tests.conformance.scenario import Table

scenario = Table()


def extra(lib):
    """A module with extra state."""

    class Extra(lib.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = lib.nn.Parameter(lib.ones(1))
            self.steps = 3

        def get_extra_state(self):
            return {"steps": self.steps}

        def set_extra_state(self, state):
            self.steps = state["steps"]

    return Extra()


@scenario
def keys_and_values(lib, kit):
    state = kit.Deep().state_dict()
    return state, type(state).__name__


@scenario
def values_are_detached_and_share_elements(lib, kit):
    scale = kit.Scale()
    value = scale.state_dict()["weight"]
    value[0] = 9
    return scale.weight, value.requires_grad, value is scale.weight


@scenario
def values_with_keep_vars(lib, kit):
    scale = kit.Scale()
    value = scale.state_dict(keep_vars=True)["weight"]
    return value is scale.weight, value.requires_grad


@scenario
def keys_with_prefix(lib, kit):
    return list(kit.Net().state_dict(prefix="model."))


@scenario
def into_a_given_dictionary(lib, kit):
    given = {"there": 1}
    state = kit.Net().state_dict(destination=given, prefix="x.")
    return state is given, list(state), hasattr(state, "_metadata")


@scenario
def positional_arguments_warn(lib, kit):
    given = OrderedDict()
    state = kit.Net().state_dict(given, "x.", True)
    return state is given, list(state), state["x.first.weight"].requires_grad


@scenario
def metadata_holds_versions(lib, kit):
    class Newer(lib.nn.Module):
        _version = 7

    model = kit.Net()
    model.first = Newer()
    return model.state_dict()._metadata, model.state_dict(prefix="x.")._metadata


@scenario
def tied_parameters_are_saved_under_every_name(lib, kit):
    model = lib.nn.Module()
    model.a = kit.Scale()
    model.b = model.a
    return list(model.state_dict())


@scenario
def extra_state_is_saved_and_loaded(lib, kit):
    model = lib.nn.Sequential(extra(lib))
    state = model.state_dict()
    state["0._extra_state"] = {"steps": 8}
    return state, repr(model.load_state_dict(state)), model[0].steps


@scenario("_extra_state")
def extra_state_is_missing(lib, kit):
    model = extra(lib)
    state = model.state_dict()
    del state["_extra_state"]
    model.load_state_dict(state)


@scenario("_extra_state")
def extra_state_is_unexpected(lib, kit):
    kit.Scale().load_state_dict({"weight": lib.ones(2), "_extra_state": 3})


@scenario
def extra_state_without_methods(lib, kit):
    kit.Scale().get_extra_state()


@scenario
def setting_extra_state_without_methods(lib, kit):
    kit.Scale().set_extra_state(3)


@scenario
def loading_copies_the_values(lib, kit):
    model, other = kit.Deep(), kit.Deep()
    with lib.no_grad():
        for each in other.parameters():
            each.mul_(10)
    weight = model.net.first.weight
    keys = model.load_state_dict(other.state_dict())
    return model.state_dict(), repr(keys), weight is model.net.first.weight


@scenario
def loaded_values_are_independent_of_the_dictionary(lib, kit):
    model = kit.Scale()
    given = lib.zeros(2)
    model.load_state_dict({"weight": given})
    given[0] = 5
    return model.weight


@scenario
def loading_converts_dtypes(lib, kit):
    model = kit.Shift()
    model.load_state_dict({"offset": lib.tensor([3, 4])})
    return model.offset


@scenario
def loading_into_half_precision(lib, kit):
    model = kit.Scale().half()
    model.load_state_dict({"weight": lib.tensor([1.5, 2.5])})
    return model.weight


@scenario("first.weight")
def a_missing_key(lib, kit):
    model = kit.Net()
    state = model.state_dict()
    del state["first.weight"]
    model.load_state_dict(state)


@scenario("third.weight")
def an_unexpected_key(lib, kit):
    model = kit.Net()
    state = model.state_dict()
    state["third.weight"] = lib.ones(1)
    model.load_state_dict(state)


@scenario("first.bias")
def an_unexpected_key_in_a_known_module(lib, kit):
    model = kit.Net()
    state = model.state_dict()
    state["first.bias"] = lib.ones(1)
    model.load_state_dict(state)


@scenario("first.weight", "second.offset", "3", "2")
def several_wrong_shapes(lib, kit):
    kit.Net().load_state_dict({"first.weight": lib.ones(3), "second.offset": lib.ones(1, 2)})


@scenario
def not_strict_reports_the_keys(lib, kit):
    model = kit.Net()
    keys = model.load_state_dict({"first.weight": lib.zeros(2), "x": 1, "first.y": 2}, strict=False)
    return keys.missing_keys, keys.unexpected_keys, list(keys), model.first.weight


@scenario("weight")
def not_strict_still_checks_shapes(lib, kit):
    kit.Scale().load_state_dict({"weight": lib.ones(3)}, strict=False)


@scenario("weight")
def a_value_that_is_no_tensor(lib, kit):
    kit.Scale().load_state_dict({"weight": [1.0, 2.0]})


@scenario("list")
def a_state_that_is_no_dictionary(lib, kit):
    kit.Scale().load_state_dict([1])


@scenario
def a_vector_of_one_element_for_a_scalar(lib, kit):
    model = kit.Scale()
    model.weight = lib.nn.Parameter(lib.tensor(1.0))
    model.load_state_dict({"weight": lib.tensor([5.0])})
    return model.weight


@scenario("weight")
def a_scalar_for_a_vector_of_one_element(lib, kit):
    kit.Scale(1.0).load_state_dict({"weight": lib.tensor(5.0)})


@scenario
def keys_of_a_submodule_that_is_none(lib, kit):
    model = kit.Net()
    state = model.state_dict()
    model.first = None
    return repr(model.load_state_dict(state))


@scenario("weight")
def a_key_of_a_parameter_that_is_none(lib, kit):
    model = kit.Scale()
    model.weight = None
    model.load_state_dict({"weight": lib.ones(2)})


@scenario
def assigning_takes_the_tensors_over(lib, kit):
    model = kit.Net()
    weight, offset = lib.zeros(2, dtype=lib.float64), lib.zeros(2)
    model.load_state_dict({"first.weight": weight, "second.offset": offset}, assign=True)
    weight[0] = 7
    return (
        model.first.weight, model.first.weight.requires_grad, model.second.offset is offset,
        list(model.named_parameters()),
    )  # fmt: skip


@scenario
def assigning_parameters_keeps_them(lib, kit):
    model = kit.Scale().requires_grad_(False)
    given = lib.nn.Parameter(lib.zeros(2))
    model.load_state_dict({"weight": given}, assign=True)
    return model.weight is given, given.requires_grad


@scenario("weight")
def assigning_still_checks_shapes(lib, kit):
    kit.Scale().load_state_dict({"weight": lib.ones(3)}, assign=True)


@scenario("weight")
def assigning_integers_to_what_requires_grad(lib, kit):
    kit.Scale().load_state_dict({"weight": lib.tensor([1, 2])}, assign=True)


@scenario
def assigning_into_a_meta_model(lib, kit):
    model = kit.Net().to("meta")
    model.load_state_dict(kit.Net().state_dict(), assign=True)
    return model.state_dict(), model.second.calls


@scenario
def copying_into_a_meta_model_warns(lib, kit):
    model = kit.Scale().to("meta")
    return repr(model.load_state_dict(kit.Scale().state_dict())), model.weight


@scenario
def state_dict_hooks_in_order(lib, kit):
    seen = []
    model = kit.Net()
    for name, module in model.named_modules():
        module.register_state_dict_pre_hook(
            lambda module, prefix, keep_vars, name=name: seen.append((name, prefix, keep_vars))
        )
        module.register_state_dict_post_hook(
            lambda module, state, prefix, metadata, name=name: seen.append(
                (name, list(state), prefix, metadata)
            )
        )
    model.state_dict()
    return seen


@scenario
def a_post_hook_changes_the_dictionary(lib, kit):
    model = kit.Net()
    model.first.register_state_dict_post_hook(
        lambda module, state, prefix, metadata: state.pop(prefix + "weight") and None
    )
    return list(model.state_dict())


@scenario
def a_post_hook_that_returns_something(lib, kit):
    model = kit.Net()
    model.register_state_dict_post_hook(lambda module, state, prefix, metadata: state)
    model.state_dict()


@scenario
def a_private_hook_replaces_the_dictionary(lib, kit):
    model = kit.Net()
    model._register_state_dict_hook(lambda module, state, prefix, metadata: {"replaced": 1})
    return model.state_dict()


@scenario
def a_private_hook_that_was_public(lib, kit):
    def hook(module, state, prefix, metadata):
        return None

    model = kit.Net()
    model.register_state_dict_post_hook(hook)
    model._register_state_dict_hook(hook)


@scenario
def load_hooks_in_order(lib, kit):
    seen = []

    def before(name):
        def hook(module, state, prefix, metadata, strict, missing, unexpected, errors):
            seen.append((name, list(state), prefix, metadata, strict))

        return hook

    def after(name):
        return lambda module, keys: seen.append((name, list(keys)))

    model = kit.Net()
    for name, module in model.named_modules():
        module.register_load_state_dict_pre_hook(before(name))
        module.register_load_state_dict_post_hook(after(name))
    model.load_state_dict(model.state_dict())
    return seen


@scenario
def a_load_pre_hook_renames_keys(lib, kit):
    def rename(module, state, prefix, *others):
        state[prefix + "weight"] = state.pop(prefix + "gamma")

    model = kit.Net()
    model.first.register_load_state_dict_pre_hook(rename)
    state = OrderedDict([("first.gamma", lib.zeros(2)), ("second.offset", lib.zeros(2))])
    return repr(model.load_state_dict(state, strict=False)), model.first.weight, list(state)


@scenario
def a_load_pre_hook_at_the_root_renames_keys(lib, kit):
    def rename(module, state, prefix, *others):
        state["first.weight"] = state.pop("first.gamma")

    model = kit.Net()
    model.register_load_state_dict_pre_hook(rename)
    state = OrderedDict([("first.gamma", lib.zeros(2)), ("second.offset", lib.zeros(2))])
    return repr(model.load_state_dict(state)), model.first.weight, list(state)


@scenario
def a_private_load_pre_hook(lib, kit):
    seen = []
    model = kit.Scale()
    model._register_load_state_dict_pre_hook(lambda *given: seen.append(len(given)))
    model._register_load_state_dict_pre_hook(
        lambda *given: seen.append((len(given), given[0] is model)), with_module=True
    )
    model.load_state_dict(model.state_dict())
    return seen


@scenario("bad news")
def a_load_pre_hook_adds_an_error(lib, kit):
    model = kit.Scale()
    model._register_load_state_dict_pre_hook(lambda *given: given[-1].append("bad news"))
    model.load_state_dict(model.state_dict())


@scenario
def a_load_post_hook_forgives(lib, kit):
    model = kit.Net()
    model.register_load_state_dict_post_hook(lambda module, keys: keys.missing_keys.clear())
    return repr(model.load_state_dict({"first.weight": lib.zeros(2)}))


@scenario
def a_load_post_hook_sees_loaded_values(lib, kit):
    seen = []
    model = kit.Scale()
    model.register_load_state_dict_post_hook(
        lambda module, keys: seen.append(module.weight.tolist())
    )
    model.load_state_dict({"weight": lib.zeros(2)})
    return seen


@scenario
def a_load_post_hook_that_returns_something(lib, kit):
    model = kit.Scale()
    model.register_load_state_dict_post_hook(lambda module, keys: keys)
    model.load_state_dict(model.state_dict())


@scenario
def hooks_bound_to_a_copied_module(lib, kit):
    seen = []

    def note(module, *given):
        seen.append(module.name)

    model = kit.Scale()
    model.name = "original"
    model.register_load_state_dict_pre_hook(note)
    other = copy.deepcopy(model)
    other.name = "copy"
    other.load_state_dict(model.state_dict())
    return seen


@scenario
def load_from_state_dict_overridden(lib, kit):
    class Old(kit.Scale):
        def _load_from_state_dict(self, state_dict, prefix, local_metadata, *others):
            if local_metadata.get("version", 1) < 2:
                state_dict[prefix + "weight"] = state_dict.pop(prefix + "old")
            super()._load_from_state_dict(state_dict, prefix, local_metadata, *others)
            self.total = self.weight.sum().item()

    model = lib.nn.Sequential(Old())
    keys = model.load_state_dict({"0.old": lib.tensor([4.0, 5.0])})
    return repr(keys), model[0].weight, model[0].total


@scenario
def load_from_state_dict_sees_only_its_own_keys(lib, kit):
    seen = []

    class Watching(kit.Scale):
        def _load_from_state_dict(self, state_dict, prefix, *others):
            seen.append((list(state_dict), prefix))
            super()._load_from_state_dict(state_dict, prefix, *others)

    model = lib.nn.Sequential(Watching(), Watching())
    model.load_state_dict(model.state_dict())
    return seen


@scenario
def save_to_state_dict_overridden(lib, kit):
    class Renamed(kit.Scale):
        def _save_to_state_dict(self, destination, prefix, keep_vars):
            super()._save_to_state_dict(destination, prefix, keep_vars)
            destination[prefix + "gamma"] = destination.pop(prefix + "weight")

    return lib.nn.Sequential(Renamed()).state_dict()


@scenario
def state_dict_overridden_in_a_child(lib, kit):
    class Silent(kit.Scale):
        def state_dict(self, *args, destination=None, prefix="", keep_vars=False):
            return destination

    return list(lib.nn.Sequential(kit.Scale(), Silent()).state_dict())


@scenario
def the_metadata_reaches_the_modules(lib, kit):
    seen = []

    class Versioned(kit.Scale):
        _version = 5

        def _load_from_state_dict(self, state_dict, prefix, local_metadata, *others):
            seen.append(dict(local_metadata))
            super()._load_from_state_dict(state_dict, prefix, local_metadata, *others)

    model = lib.nn.Sequential(Versioned())
    model.load_state_dict(model.state_dict())
    model.load_state_dict(dict(model.state_dict()))
    model.load_state_dict(model.state_dict(), assign=True)
    return seen


@scenario
def the_given_dictionary_is_left_alone(lib, kit):
    model = kit.Scale()
    model._register_load_state_dict_pre_hook(lambda state, *others: state.clear())
    state = model.state_dict()
    keys = model.load_state_dict(state, strict=False)
    return list(state), keys.missing_keys


@scenario
def pickling_a_state_dict(lib, kit):
    state = pickle.loads(pickle.dumps(kit.Net().state_dict()))
    return state, state._metadata


@scenario
def a_shared_module_loads_twice(lib, kit):
    model = lib.nn.Module()
    model.a = kit.Scale()
    model.b = model.a
    model.load_state_dict({"a.weight": lib.zeros(2), "b.weight": lib.ones(2)})
    return model.a.weight


@scenario
def loading_what_belongs_to_the_model_itself(lib, kit):
    model = kit.Net()
    state = model.state_dict()
    swapped = {"first.weight": state["second.offset"], "second.offset": state["first.weight"]}
    model.load_state_dict(swapped)
    return model.state_dict()


@scenario
def too_many_positional_arguments(lib, kit):
    return list(kit.Net().state_dict(None, "p.", True, 5))
