"""The containers of modules and of parameters."""

import operator
from collections import OrderedDict

from tests.conformance.scenario import Table

scenario = Table()


def chain(lib, kit, *values):
    """A chain of layers that multiply."""
    return lib.nn.Sequential(*(kit.Scale(value) for value in values))


def weights(container):
    """What the layers multiply by, by name."""
    return [(name, module.weight.item()) for name, module in container.named_children()]


@scenario
def sequential_calls_in_order(lib, kit):
    return chain(lib, kit, 2.0, 5.0)(lib.ones(1)), lib.nn.Sequential()(3)


@scenario
def sequential_with_names(lib, kit):
    model = lib.nn.Sequential(OrderedDict([("a", kit.Scale(2.0)), ("b", kit.Scale(3.0))]))
    return weights(model), model.b.weight, model[1].weight


@scenario
def sequential_of_something_else(lib, kit):
    lib.nn.Sequential(3)


@scenario
def sequential_items(lib, kit):
    model = chain(lib, kit, 1.0, 2.0, 3.0)
    return model[0].weight, model[-1].weight, len(model), [each.weight for each in model]


@scenario
def sequential_slices(lib, kit):
    model = chain(lib, kit, 1.0, 2.0, 3.0)
    part = model[1:]
    return weights(part), type(part).__name__, weights(model[::-1]), part[0] is model[1]


@scenario
def sequential_index_out_of_range(lib, kit):
    return chain(lib, kit, 1.0)[1]


@scenario
def sequential_with_a_string_as_index(lib, kit):
    return chain(lib, kit, 1.0)["0"]


@scenario
def sequential_set_item(lib, kit):
    model = chain(lib, kit, 1.0, 2.0)
    model[-1] = kit.Scale(9.0)
    return weights(model)


@scenario
def sequential_set_item_to_a_number(lib, kit):
    chain(lib, kit, 1.0, 2.0)[0] = 3


@scenario
def sequential_delete_renumbers(lib, kit):
    model = chain(lib, kit, 1.0, 2.0, 3.0)
    del model[0]
    other = chain(lib, kit, 1.0, 2.0, 3.0, 4.0)
    del other[1:3]
    return weights(model), weights(other)


@scenario
def sequential_delete_of_names_renumbers(lib, kit):
    model = lib.nn.Sequential(OrderedDict([("a", kit.Scale(2.0)), ("b", kit.Scale(3.0))]))
    del model[0]
    return weights(model)


@scenario
def sequential_append_extend_insert_pop(lib, kit):
    model = chain(lib, kit, 1.0)
    results = (
        model.append(kit.Scale(2.0)), model.extend(chain(lib, kit, 3.0, 4.0)),
        model.insert(1, kit.Scale(9.0)), model.insert(-1, kit.Scale(8.0)),
    )  # fmt: skip
    popped = model.pop(0)
    return [each is model for each in results], popped.weight, weights(model)


@scenario
def sequential_pop_of_a_slice(lib, kit):
    model = chain(lib, kit, 1.0, 2.0, 3.0)
    return weights(model.pop(slice(0, 2))), weights(model)


@scenario
def sequential_extend_with_a_list(lib, kit):
    return weights(lib.nn.Sequential().extend([kit.Scale(1.0), kit.Scale(2.0)]))


@scenario
def sequential_insert_out_of_range(lib, kit):
    chain(lib, kit, 1.0).insert(5, kit.Scale(1.0))


@scenario
def sequential_insert_of_a_number(lib, kit):
    chain(lib, kit, 1.0).insert(0, 3)


@scenario
def sequential_addition(lib, kit):
    a, b = chain(lib, kit, 1.0), chain(lib, kit, 2.0)
    total = a + b
    shared = total[0] is a[0]
    a += b
    return weights(total), shared, weights(a), type(total).__name__


@scenario
def sequential_plus_a_list(lib, kit):
    return operator.add(chain(lib, kit, 1.0), [kit.Scale()])


@scenario
def sequential_plus_equals_a_list(lib, kit):
    model = chain(lib, kit, 1.0)
    model += [kit.Scale()]


@scenario
def sequential_multiplication(lib, kit):
    model = chain(lib, kit, 1.0, 2.0)
    doubled, tripled = model * 2, 3 * model
    shared = doubled[2] is model[0]
    model *= 2
    return (
        weights(doubled),
        len(tripled),
        shared,
        [each.weight for each in model],
        list(model._modules),
    )


@scenario
def sequential_times_zero(lib, kit):
    return chain(lib, kit, 1.0) * 0


@scenario
def sequential_times_a_float(lib, kit):
    return chain(lib, kit, 1.0) * 2.0


@scenario
def sequential_times_equals_zero(lib, kit):
    model = chain(lib, kit, 1.0)
    model *= 0


@scenario
def sequential_dir_has_no_numbers(lib, kit):
    return [name for name in dir(chain(lib, kit, 1.0)) if name.isdigit()]


@scenario
def module_list_items(lib, kit):
    model = lib.nn.ModuleList([kit.Scale(1.0), kit.Scale(2.0), kit.Scale(3.0)])
    return (
        model[0].weight, model[-1].weight, len(model), [each.weight for each in model],
        weights(model[1:]), type(model[1:]).__name__,
    )  # fmt: skip


@scenario
def module_list_cannot_be_called(lib, kit):
    lib.nn.ModuleList([kit.Scale()])(1)


@scenario
def module_list_index_out_of_range(lib, kit):
    return lib.nn.ModuleList([kit.Scale()])[-2]


@scenario
def module_list_of_a_number(lib, kit):
    lib.nn.ModuleList([3])


@scenario
def module_list_of_what_is_no_iterable(lib, kit):
    lib.nn.ModuleList(3)


@scenario
def module_list_changes(lib, kit):
    model = lib.nn.ModuleList(kit.Scale(float(i)) for i in range(3))
    appended = model.append(kit.Scale(9.0)) is model
    extended = model.extend([kit.Scale(8.0)]) is model
    inserted = model.insert(1, kit.Scale(7.0))
    popped = model.pop(-1)
    model[0] = kit.Scale(6.0)
    del model[2]
    return weights(model), appended, extended, inserted, popped.weight


@scenario
def module_list_delete_of_a_slice(lib, kit):
    model = lib.nn.ModuleList(kit.Scale(float(i)) for i in range(5))
    del model[1:4:2]
    return weights(model)


@scenario
def module_list_addition(lib, kit):
    model = lib.nn.ModuleList([kit.Scale(1.0)])
    total = operator.add(model, [kit.Scale(2.0)])
    model += [kit.Scale(3.0)]
    return weights(total), weights(model), type(total).__name__


@scenario
def module_list_repr_folds_equal_blocks(lib, kit):
    model = lib.nn.ModuleList([kit.Net(), kit.Net(), kit.Echo(), kit.Net(), kit.Net(), kit.Net()])
    return repr(model), repr(lib.nn.ModuleList()), repr(lib.nn.Sequential(model))


@scenario
def module_dict_items(lib, kit):
    model = lib.nn.ModuleDict({"a": kit.Scale(1.0), "b": kit.Scale(2.0)})
    model["c"] = kit.Scale(3.0)
    return (
        list(model), len(model), "a" in model, "z" in model, model["b"].weight,
        list(model.keys()), list(model.items()), [each.weight for each in model.values()],
    )  # fmt: skip


@scenario
def module_dict_from_pairs(lib, kit):
    return weights(lib.nn.ModuleDict([("x", kit.Scale(1.0)), ["y", kit.Scale(2.0)]]))


@scenario
def module_dict_changes(lib, kit):
    model = lib.nn.ModuleDict({"a": kit.Scale(1.0), "b": kit.Scale(2.0), "c": kit.Scale(3.0)})
    popped = model.pop("a")
    del model["b"]
    model.update({"c": kit.Scale(9.0), "d": kit.Scale(8.0)})
    model.update(lib.nn.ModuleDict({"e": kit.Scale(7.0)}))
    state = weights(model)
    model.clear()
    return popped.weight, state, len(model)


@scenario
def module_dict_keeps_the_order_of_a_dictionary(lib, kit):
    return list(lib.nn.ModuleDict({"b": kit.Scale(), "a": kit.Scale()}))


@scenario
def module_dict_without_the_key(lib, kit):
    return lib.nn.ModuleDict()["a"]


@scenario
def module_dict_pop_without_the_key(lib, kit):
    return lib.nn.ModuleDict().pop("a")


@scenario
def module_dict_with_the_name_of_a_method(lib, kit):
    lib.nn.ModuleDict({"keys": kit.Scale()})


@scenario
def module_dict_update_with_a_number(lib, kit):
    lib.nn.ModuleDict().update(3)


@scenario
def module_dict_update_with_numbers(lib, kit):
    lib.nn.ModuleDict().update([1, 2])


@scenario
def module_dict_update_with_triples(lib, kit):
    lib.nn.ModuleDict().update([("a", kit.Scale(), 3)])


@scenario
def module_dict_cannot_be_called(lib, kit):
    lib.nn.ModuleDict()(1)


@scenario
def parameter_list_items(lib, kit):
    model = lib.nn.ParameterList([lib.ones(1), lib.nn.Parameter(lib.zeros(1)), "text"])
    return (
        len(model), list(model), model[0].requires_grad, list(model.named_parameters()),
        model[-1], list(model[:2]), type(model[:2]).__name__,
    )  # fmt: skip


@scenario
def parameter_list_changes(lib, kit):
    model = lib.nn.ParameterList([lib.ones(1)])
    appended = model.append(lib.zeros(2)) is model
    extended = model.extend([lib.zeros(3)]) is model
    model += [lib.ones(4)]
    model[0] = lib.zeros(5)
    return appended, extended, list(model.state_dict().items())


@scenario
def parameter_list_index_out_of_range(lib, kit):
    return lib.nn.ParameterList([lib.ones(1)])[1]


@scenario
def parameter_list_extended_by_a_tensor(lib, kit):
    lib.nn.ParameterList().extend(lib.ones(2))


@scenario
def parameter_list_extended_by_a_number(lib, kit):
    lib.nn.ParameterList().extend(3)


@scenario
def parameter_list_cannot_be_called(lib, kit):
    lib.nn.ParameterList()(1)


@scenario
def parameter_list_repr(lib, kit):
    text = repr(lib.nn.ParameterList([lib.ones(2, 3), 5]))
    return text.replace("torch.", "").replace("flambeau.", "")


@scenario
def parameter_dict_items(lib, kit):
    model = lib.nn.ParameterDict(OrderedDict([("b", lib.ones(1)), ("a", lib.zeros(1)), ("c", 3)]))
    return (
        list(model), len(model), "a" in model, model["b"], list(model.items()), list(model.keys()),
        list(model.values()), list(reversed(model)), list(model.named_parameters()),
    )  # fmt: skip


@scenario
def parameter_dict_sorts_a_plain_dictionary(lib, kit):
    return list(lib.nn.ParameterDict({"b": lib.ones(1), "a": lib.zeros(1)}))


@scenario
def parameter_dict_from_pairs(lib, kit):
    return list(lib.nn.ParameterDict([("b", lib.ones(1)), ("a", lib.zeros(1))]).items())


@scenario
def parameter_dict_changes(lib, kit):
    model = lib.nn.ParameterDict(OrderedDict([("a", lib.ones(1)), ("b", 2), ("c", 3)]))
    popped = model.pop("a"), model.popitem()
    default = model.setdefault("b", 5), model.setdefault("d", 6)
    del model["b"]
    model.update({"e": lib.ones(1)})
    return popped, default, model.get("x"), model.get("d", 1), list(model.items())


@scenario
def parameter_dict_copies_and_merges(lib, kit):
    a = lib.nn.ParameterDict({"x": lib.ones(1), "y": 2})
    b = lib.nn.ParameterDict({"y": 3, "z": 4})
    copied, merged = a.copy(), a | b
    shared = copied["x"] is a["x"]
    a |= b
    return shared, list(merged.items()), list(a.items()), list(a.fromkeys(["k"], 0).items())


@scenario
def parameter_dict_clear(lib, kit):
    model = lib.nn.ParameterDict({"x": lib.ones(1), "y": 2})
    model.clear()
    return len(model), list(model.parameters())


@scenario
def parameter_dict_without_the_key(lib, kit):
    return lib.nn.ParameterDict()["a"]


@scenario
def parameter_dict_pop_of_nothing(lib, kit):
    lib.nn.ParameterDict().popitem()


@scenario
def parameter_dict_with_a_number_as_key(lib, kit):
    lib.nn.ParameterDict()[3] = lib.ones(1)


@scenario
def parameter_dict_update_with_a_number(lib, kit):
    lib.nn.ParameterDict().update(3)


@scenario
def parameter_dict_update_with_triples(lib, kit):
    lib.nn.ParameterDict().update([("a", 1, 2)])


@scenario
def parameter_dict_cannot_be_called(lib, kit):
    lib.nn.ParameterDict()(1)


@scenario
def parameter_dict_repr(lib, kit):
    text = repr(lib.nn.ParameterDict({"a": lib.ones(2, 3), "b": 5}))
    return text.replace("torch.", "").replace("flambeau.", "")


@scenario
def the_deprecated_container_warns(lib, kit):
    return list(lib.nn.Container(a=kit.Scale(), b=kit.Echo()).named_children())
