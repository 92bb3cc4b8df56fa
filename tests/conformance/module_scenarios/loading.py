"""What `load_state_dict` accepts, and what it does with it."""

import copy
import pickle
import types
from collections import OrderedDict

import numpy as np

from tests.conformance.scenario import Table

scenario = Table()


def load(module, state, **options):
    """The keys that do not match, or the error's type."""
    try:
        keys = module.load_state_dict(state, **options)
    except (AttributeError, KeyError, RuntimeError, TypeError) as error:
        return type(error).__name__
    return list(keys.missing_keys), list(keys.unexpected_keys)


@scenario
def names_that_begin_alike(lib, kit):
    module = lib.nn.Module()
    module.layer, module.layer1, module.layer10 = kit.Scale(), kit.Scale(), kit.Scale()
    values = {"layer": 5.0, "layer1": 6.0, "layer10": 7.0, "layer1x": 8.0}
    state = {f"{name}.weight": lib.tensor([value, 0.0]) for name, value in values.items()}
    keys = load(module, state, strict=False)
    return keys, module.layer.weight, module.layer1.weight, module.layer10.weight


@scenario
def a_key_that_names_a_module(lib, kit):
    module = kit.Net()
    state = dict(module.state_dict())
    state["first"] = lib.ones(1)
    return load(module, state, strict=False), load(module, state)


@scenario
def a_key_below_a_parameter(lib, kit):
    module = kit.Scale()
    state = dict(module.state_dict())
    state["weight.x"] = lib.ones(1)
    return load(module, state, strict=False)


@scenario
def an_empty_key(lib, kit):
    module = kit.Scale()
    state = dict(module.state_dict())
    state[""] = lib.ones(1)
    return load(module, state, strict=False)


@scenario
def keys_of_dots(lib, kit):
    module = kit.Net()
    state = dict(module.state_dict())
    state["."] = lib.ones(1)
    state[".first"] = 1
    state["first."] = 2
    return load(module, state, strict=False)


@scenario
def a_key_that_is_no_string(lib, kit):
    module = kit.Scale()
    state = dict(module.state_dict())
    state[3] = lib.ones(1)
    return load(module, state, strict=False)


@scenario
def a_key_of_a_buffer_that_is_not_saved(lib, kit):
    module = kit.Shift()
    state = dict(module.state_dict())
    state["calls"] = lib.tensor(5)
    found = load(module, state, strict=False)
    return found, module.calls, load(module, state)


@scenario
def none_as_value(lib, kit):
    module = kit.Scale()
    return load(module, {"weight": None}), load(module, {"weight": None}, strict=False)


@scenario
def an_array_as_value(lib, kit):
    module = kit.Scale()
    return load(module, {"weight": np.ones(2, np.float32)})


@scenario
def a_matrix_of_one_element_for_a_scalar(lib, kit):
    module = lib.nn.Module()
    module.register_buffer("count", lib.tensor(0.0))
    return load(module, {"count": lib.zeros(1, 1)})


@scenario
def values_that_would_broadcast(lib, kit):
    module = kit.Scale()
    return load(module, {"weight": lib.ones(1)}), load(module, {"weight": lib.tensor(1.0)})


@scenario
def integers_for_floats(lib, kit):
    module = kit.Scale()
    found = load(module, {"weight": lib.tensor([4, 5])})
    return found, module.weight


@scenario
def floats_for_integers(lib, kit):
    module = lib.nn.Module()
    module.register_buffer("count", lib.tensor([1, 2]))
    found = load(module, {"count": lib.tensor([4.7, -5.2])})
    return found, module.count


@scenario
def booleans_for_floats(lib, kit):
    module = kit.Scale()
    found = load(module, {"weight": lib.tensor([True, False])})
    return found, module.weight


@scenario
def assigning_integers_to_a_frozen_parameter(lib, kit):
    module = kit.Scale()
    module.weight.requires_grad_(False)
    found = load(module, {"weight": lib.tensor([1, 2])}, assign=True)
    return found, module.weight


@scenario
def assigning_a_parameter_to_a_frozen_one(lib, kit):
    module = kit.Scale()
    module.weight.requires_grad_(False)
    parameter = lib.nn.Parameter(lib.ones(2))
    load(module, {"weight": parameter}, assign=True)
    return module.weight is parameter, parameter.requires_grad


@scenario
def assigning_a_result(lib, kit):
    module = kit.Scale()
    weight = lib.ones(2, requires_grad=True) * 2
    found = load(module, {"weight": weight}, assign=True)
    return found, module.weight.is_leaf, module.weight.requires_grad


@scenario
def assigning_a_buffer_of_another_dtype(lib, kit):
    module = kit.Shift()
    buffer = lib.ones(2, dtype=lib.float64)
    load(module, {"offset": buffer}, assign=True)
    return module.offset is buffer, module.offset.dtype


@scenario
def assigning_forgets_gradients(lib, kit):
    module = kit.Scale()
    module.weight.grad = lib.ones(2)
    load(module, {"weight": lib.zeros(2)}, assign=True)
    return module.weight.grad


@scenario
def loading_keeps_gradients(lib, kit):
    module = kit.Scale()
    module.weight.grad = lib.ones(2)
    load(module, {"weight": lib.zeros(2)})
    return module.weight.grad, module.weight


@scenario
def loading_a_modules_own_tensors(lib, kit):
    module = kit.Net()
    state = module.state_dict(keep_vars=True)
    return load(module, state), [type(value).__name__ for value in state.values()]


@scenario
def assigning_tensors_on_meta(lib, kit):
    module = kit.Scale()
    return load(module, {"weight": lib.empty(2, device="meta")}, assign=True), module.weight


@scenario
def loading_meta_into_meta(lib, kit):
    module = kit.Scale().to("meta")
    return load(module, {"weight": lib.empty(2, device="meta")})


@scenario
def load_overridden_without_super(lib, kit):
    class Model(lib.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = lib.nn.Parameter(lib.zeros(1))

        def _load_from_state_dict(
            self, state, prefix, metadata, strict, missing, unexpected, errors
        ):
            value = state.pop(prefix + "old", None)
            if value is not None:
                self.weight.data.copy_(value)
            else:
                missing.append(prefix + "old")

    module = lib.nn.Sequential(Model())
    return (
        load(module, {"0.old": lib.ones(1)}),
        module[0].weight,
        load(module, {}),
        load(module, {"0.x": lib.ones(1)}),
    )


@scenario
def load_overridden_that_renames(lib, kit):
    class Model(lib.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = lib.nn.Parameter(lib.zeros(1))

        def _load_from_state_dict(self, state, prefix, *args):
            if prefix + "old" in state:
                state[prefix + "weight"] = state.pop(prefix + "old")
            super()._load_from_state_dict(state, prefix, *args)

    module = lib.nn.Sequential(Model())
    return load(module, {"0.old": lib.ones(1)}), module[0].weight


@scenario
def load_overridden_that_adds_keys_of_a_child(lib, kit):
    class Model(lib.nn.Module):
        def __init__(self):
            super().__init__()
            self.child = kit.Scale()

        def _load_from_state_dict(self, state, prefix, *args):
            state[prefix + "child.weight"] = state.pop(prefix + "flat")
            super()._load_from_state_dict(state, prefix, *args)

    module = lib.nn.Sequential(Model())
    return load(module, {"0.flat": lib.ones(2)}), module[0].child.weight


@scenario
def load_overridden_that_makes_a_parameter(lib, kit):
    class Model(lib.nn.Module):
        def _load_from_state_dict(self, state, prefix, *args):
            self.weight = lib.nn.Parameter(lib.empty_like(state[prefix + "weight"]))
            super()._load_from_state_dict(state, prefix, *args)

    module = lib.nn.Sequential(Model())
    return load(module, {"0.weight": lib.ones(2)}), module[0].weight


@scenario
def load_overridden_that_makes_a_module(lib, kit):
    class Model(lib.nn.Module):
        def _load_from_state_dict(self, state, prefix, *args):
            self.child = kit.Scale()
            super()._load_from_state_dict(state, prefix, *args)

    module = lib.nn.Sequential(Model())
    return load(module, {"0.child.weight": lib.ones(2)}), module[0].child.weight


@scenario
def load_overridden_with_keywords(lib, kit):
    class Model(kit.Scale):
        def _load_from_state_dict(
            self,
            state_dict,
            prefix,
            local_metadata,
            strict,
            missing_keys,
            unexpected_keys,
            error_msgs,
        ):
            super()._load_from_state_dict(
                state_dict=state_dict,
                prefix=prefix,
                local_metadata=local_metadata,
                strict=False,
                missing_keys=missing_keys,
                unexpected_keys=unexpected_keys,
                error_msgs=error_msgs,
            )

    module = lib.nn.Sequential(Model())
    return load(module, {}), load(module, {"0.q": lib.ones(1)})


@scenario("mine went wrong")
def load_overridden_that_notes_an_error(lib, kit):
    class Model(kit.Scale):
        def _load_from_state_dict(
            self, state, prefix, metadata, strict, missing, unexpected, errors
        ):
            errors.append("mine went wrong")

    Model().load_state_dict({})


@scenario
def load_state_dict_overridden_at_the_root_only(lib, kit):
    seen = []

    class Model(kit.Scale):
        def load_state_dict(self, state, *args, **options):
            seen.append((args, options))
            return super().load_state_dict(
                {key.removeprefix("module."): value for key, value in state.items()},
                *args,
                **options,
            )

    module = Model()
    found = load(module, {"module.weight": lib.zeros(2)}, strict=True)
    outer = lib.nn.Sequential(module)
    load(outer, {"0.weight": lib.ones(2)})
    return found, seen, module.weight


@scenario
def state_dict_overridden_in_the_old_way(lib, kit):
    class Model(kit.Scale):
        def state_dict(self, destination=None, prefix="", keep_vars=False):
            state = super().state_dict(destination=destination, prefix=prefix, keep_vars=keep_vars)
            state[prefix + "mine"] = 1
            return state

    module = lib.nn.Sequential(Model())
    return list(module.state_dict()), list(module.state_dict(prefix="p."))


@scenario
def state_dict_overridden_that_returns_something_else(lib, kit):
    class Model(kit.Scale):
        def state_dict(self, *args, **options):
            return {"nothing": 1}

    module = lib.nn.Sequential(Model(), kit.Scale())
    return list(module.state_dict())


@scenario
def named_parameters_overridden_does_not_change_the_state(lib, kit):
    class Model(kit.Scale):
        def named_parameters(self, *args, **options):
            return iter(())

    module = lib.nn.Sequential(Model())
    return list(module.state_dict()), list(module.parameters())


@scenario
def a_private_hook_of_a_child_replaces_nothing(lib, kit):
    module = kit.Net()
    module.first._register_state_dict_hook(lambda module, state, prefix, metadata: {"other": 1})
    return list(module.state_dict())


@scenario
def private_hooks_in_a_chain(lib, kit):
    module = kit.Net()
    module._register_state_dict_hook(lambda module, state, prefix, metadata: OrderedDict(a=1))
    module._register_state_dict_hook(
        lambda module, state, prefix, metadata: OrderedDict(state, b=2)
    )
    return module.state_dict()


@scenario
def a_private_hook_removes_keys(lib, kit):
    module = kit.Net()

    def hook(module, state, prefix, metadata):
        for key in list(state):
            if key.startswith(prefix + "first"):
                del state[key]

    module._register_state_dict_hook(hook)
    return list(module.state_dict())


@scenario
def a_plain_dictionary_as_destination(lib, kit):
    module = kit.Net()
    state = {}
    found = module.state_dict(destination=state)
    return found is state, list(state), hasattr(found, "_metadata")


@scenario
def positional_destination_and_named_prefix(lib, kit):
    module = kit.Net()
    state = OrderedDict()
    found = module.state_dict(state, prefix="q.")
    return found is state, list(state)


@scenario
def a_prefix_without_a_dot(lib, kit):
    module = kit.Net()
    state = module.state_dict(prefix="p")
    return list(state), list(state._metadata)


@scenario
def copies_of_a_state_dict_keep_the_metadata(lib, kit):
    state = kit.Net().state_dict()
    return (
        hasattr(copy.copy(state), "_metadata"),
        hasattr(copy.deepcopy(state), "_metadata"),
        hasattr(dict(state), "_metadata"),
        list(pickle.loads(pickle.dumps(state))._metadata),
    )


@scenario
def none_as_extra_state(lib, kit):
    class Model(lib.nn.Module):
        def get_extra_state(self):
            return None

        def set_extra_state(self, state):
            self.got = state

    module = Model()
    state = module.state_dict()
    found = load(module, state)
    return list(state.items()), found, module.got


@scenario
def extra_state_that_cannot_be_set(lib, kit):
    class Model(lib.nn.Module):
        def get_extra_state(self):
            return 3

    module = Model()
    state = module.state_dict()
    return load(module, state), load(module, state, strict=False)


@scenario
def extra_state_that_cannot_be_got(lib, kit):
    class Model(lib.nn.Module):
        def set_extra_state(self, state):
            self.got = state

    module = Model()
    state = module.state_dict()
    return list(state), load(module, state), load(module, {"_extra_state": 5}), module.got


@scenario
def extra_state_methods_of_an_instance_do_not_count(lib, kit):
    module = lib.nn.Module()
    module.get_extra_state = lambda: 3
    return list(module.state_dict())


@scenario
def extra_state_of_a_mixin(lib, kit):
    class Mixin:
        def get_extra_state(self):
            return 7

        def set_extra_state(self, state):
            self.got = state

    class Model(Mixin, lib.nn.Module):
        pass

    module = Model()
    state = module.state_dict()
    load(module, state)
    return state, module.got


@scenario
def a_pre_hook_at_the_root_drops_a_key(lib, kit):
    module = kit.Net()
    module.register_load_state_dict_pre_hook(
        lambda module, state, prefix, *args: state.pop(prefix + "bogus", None)
    )
    state = dict(module.state_dict(), bogus=1)
    return load(module, state), "bogus" in state


@scenario
def a_pre_hook_of_a_child_drops_its_key(lib, kit):
    module = kit.Net()
    module.first.register_load_state_dict_pre_hook(
        lambda module, state, prefix, *args: state.pop(prefix + "bogus", None)
    )
    state = dict(module.state_dict())
    state["first.bogus"] = 1
    return load(module, state)


@scenario
def post_hooks_run_from_the_leaves_to_the_root(lib, kit):
    seen = []
    module = kit.Net()
    for name, each in module.named_modules():
        each.register_load_state_dict_post_hook(
            lambda module, keys, name=name: seen.append((name, list(keys.missing_keys)))
        )
    module.register_load_state_dict_post_hook(lambda module, keys: keys.missing_keys.clear())
    return load(module, {}), seen


@scenario
def a_post_hook_adds_an_unexpected_key(lib, kit):
    module = kit.Net()
    module.register_load_state_dict_post_hook(lambda module, keys: keys.unexpected_keys.append("q"))
    return load(module, module.state_dict())


@scenario
def a_mapping_that_is_no_dictionary(lib, kit):
    module = kit.Net()
    return load(module, types.MappingProxyType(dict(module.state_dict())))


@scenario
def a_state_of_batch_norm_before_it_counted(lib, kit):
    module = lib.nn.BatchNorm1d(2)
    state = module.state_dict()
    del state["num_batches_tracked"]
    state._metadata[""]["version"] = 1
    newer = module.state_dict()
    del newer["num_batches_tracked"]
    return load(module, state), load(module, newer)


@scenario
def assigning_expanded_tensors(lib, kit):
    module = lib.nn.Linear(2, 3)
    return (
        load(
            module,
            {"weight": lib.ones(1, 1).expand(3, 2), "bias": lib.ones(1).expand(3)},
            assign=True,
        ),
        module.weight,
    )


@scenario
def loading_into_views_of_one_tensor(lib, kit):
    flat = lib.zeros(4)
    module = lib.nn.Module()
    module.a = lib.nn.Parameter(flat[:2])
    module.b = lib.nn.Parameter(flat[2:])
    module.load_state_dict({"a": lib.ones(2), "b": lib.ones(2) * 2})
    return flat
