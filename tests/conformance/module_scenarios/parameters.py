"""Parameters and buffers as tensors."""

import copy
import pickle

from tests.conformance.scenario import Table

scenario = Table()


@scenario
def a_parameter_requires_grad_and_shares_the_elements(lib, kit):
    data = lib.ones(2)
    parameter = lib.nn.Parameter(data)
    data[0] = 5
    return parameter, parameter.requires_grad, data.requires_grad, parameter.is_leaf


@scenario
def a_parameter_without_grad(lib, kit):
    return lib.nn.Parameter(lib.ones(2), requires_grad=False).requires_grad


@scenario
def a_parameter_of_nothing(lib, kit):
    return lib.nn.Parameter()


@scenario
def a_parameter_of_a_parameter(lib, kit):
    first = lib.nn.Parameter(lib.ones(2), requires_grad=False)
    second = lib.nn.Parameter(first)
    return second is first, second.requires_grad, first.requires_grad


@scenario
def a_parameter_of_integers(lib, kit):
    lib.nn.Parameter(lib.tensor([1, 2]))


@scenario
def a_parameter_of_integers_without_grad(lib, kit):
    return lib.nn.Parameter(lib.tensor([1, 2]), requires_grad=False)


@scenario
def a_parameter_of_a_result_is_a_leaf(lib, kit):
    x = lib.ones(2, requires_grad=True)
    parameter = lib.nn.Parameter(x * 2)
    return parameter.is_leaf, parameter.grad_fn, parameter


@scenario
def instances_of_parameter(lib, kit):
    parameter = lib.nn.Parameter(lib.ones(1))
    return [
        isinstance(each, lib.nn.Parameter)
        for each in (parameter, lib.ones(1), parameter.data, parameter.detach(), parameter * 1, 3)
    ], isinstance(parameter, lib.Tensor)


@scenario
def types_of_what_operators_give(lib, kit):
    parameter = lib.nn.Parameter(lib.ones(2))
    results = (
        parameter.data, parameter.detach(), parameter + 1, parameter[0], parameter.clone(),
        parameter.view(2), parameter.t(), parameter.sum(),
    )  # fmt: skip
    return [type(each).__name__ for each in results]


@scenario
def in_place_operators_keep_the_parameter(lib, kit):
    parameter = lib.nn.Parameter(lib.ones(2))
    with lib.no_grad():
        result = parameter.add_(1)
    return result is parameter, parameter


@scenario
def a_flag_makes_any_tensor_a_parameter(lib, kit):
    tensor = lib.ones(1)
    tensor._is_param = True
    module = lib.nn.Module()
    module.weight = tensor
    return isinstance(tensor, lib.nn.Parameter), list(module._parameters)


@scenario
def a_custom_class_keeps_its_class(lib, kit):
    class Special(lib.Tensor):
        pass

    special = lib.ones(2).as_subclass(Special)
    parameter = lib.nn.Parameter(special)
    module = lib.nn.Module()
    module.weight = parameter
    return (
        type(parameter).__name__, isinstance(parameter, lib.nn.Parameter), parameter._is_param,
        parameter.requires_grad, list(module._parameters),
    )  # fmt: skip


@scenario("Special")
def a_custom_class_whose_detach_loses_it(lib, kit):
    class Special(lib.Tensor):
        def detach(self):
            return lib.ones(2)

    lib.nn.Parameter(lib.ones(2).as_subclass(Special))


@scenario
def a_subclass_of_parameter(lib, kit):
    class Named(lib.nn.Parameter):
        pass

    parameter = Named(lib.ones(2))
    module = lib.nn.Module()
    module.weight = parameter
    return (
        type(parameter).__name__, isinstance(parameter, lib.nn.Parameter), list(module._parameters),
        isinstance(lib.nn.Parameter(lib.ones(1)), Named),
    )  # fmt: skip


@scenario
def repr_of_a_parameter(lib, kit):
    return repr(lib.nn.Parameter(lib.ones(2)))


@scenario
def a_deep_copy(lib, kit):
    parameter = lib.nn.Parameter(lib.ones(2), requires_grad=False)
    parameter.note = "kept on the original only"
    memo = {}
    other = copy.deepcopy(parameter, memo)
    with lib.no_grad():
        other.add_(1)
    return (
        other, other.requires_grad, parameter, copy.deepcopy(parameter, memo) is other,
        hasattr(other, "note"), type(other).__name__,
    )  # fmt: skip


@scenario
def a_deep_copy_leaves_the_gradient(lib, kit):
    parameter = lib.nn.Parameter(lib.ones(2))
    parameter.sum().backward()
    return copy.deepcopy(parameter).grad


@scenario
def a_shallow_copy_shares_the_elements(lib, kit):
    parameter = lib.nn.Parameter(lib.ones(2))
    other = copy.copy(parameter)
    with lib.no_grad():
        other.add_(1)
    return parameter, type(other).__name__, other is parameter


@scenario
def pickling(lib, kit):
    parameter = lib.nn.Parameter(lib.tensor([1.5, 2.5]), requires_grad=False)
    other = pickle.loads(pickle.dumps(parameter))
    return other, other.requires_grad, type(other).__name__


@scenario
def pickling_with_attributes(lib, kit):
    parameter = lib.nn.Parameter(lib.tensor([1.5, 2.5]))
    parameter.note = "kept"
    other = pickle.loads(pickle.dumps(parameter))
    return other, other.requires_grad, other.note


@scenario
def attributes_on_parameters(lib, kit):
    parameter = lib.nn.Parameter(lib.ones(1))
    parameter.group = 3
    module = lib.nn.Module()
    module.weight = parameter
    return module.weight.group, module.double().weight.group


@scenario
def hooks_on_parameters(lib, kit):
    seen = []
    scale = kit.Scale()
    scale.weight.register_hook(lambda grad: seen.append(grad) or grad * 10)
    scale.weight.register_post_accumulate_grad_hook(lambda each: seen.append(each.grad))
    scale(lib.ones(2)).sum().backward()
    return seen, scale.weight.grad


@scenario
def a_buffer(lib, kit):
    buffer = lib.nn.Buffer(lib.ones(2))
    return (
        buffer, type(buffer).__name__, buffer.persistent, buffer.requires_grad,
        isinstance(buffer, lib.nn.Buffer), isinstance(lib.ones(1), lib.nn.Buffer),
    )  # fmt: skip


@scenario
def a_buffer_of_nothing(lib, kit):
    return lib.nn.Buffer(), lib.nn.Buffer(persistent=False).persistent


@scenario
def a_buffer_shares_the_elements(lib, kit):
    data = lib.ones(2)
    buffer = lib.nn.Buffer(data)
    data[0] = 5
    return buffer, buffer is data


@scenario
def a_buffer_of_what_requires_grad(lib, kit):
    buffer = lib.nn.Buffer(lib.ones(2, requires_grad=True))
    return buffer.requires_grad, buffer.is_leaf


@scenario
def a_buffer_after_conversion(lib, kit):
    module = lib.nn.Module()
    module.mean = lib.nn.Buffer(lib.ones(2), persistent=False)
    module.double()
    return module.mean, module._non_persistent_buffers_set


@scenario
def parameters_as_dictionary_keys(lib, kit):
    a, b = lib.nn.Parameter(lib.ones(2)), lib.nn.Parameter(lib.ones(2))
    return len({a, b, a}), {a: 1, b: 2}[a]


@scenario("detach")
def a_custom_class_whose_override_of_detach_loses_it(lib, kit):
    class Lossy(lib.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            result = super().__torch_function__(func, types, args, kwargs or {})
            return result.as_subclass(lib.Tensor) if func is lib.Tensor.detach else result

    lib.nn.Parameter(lib.ones(2).as_subclass(Lossy))


@scenario
def requires_grad_must_be_a_bool(lib, kit):
    lib.nn.Parameter(lib.ones(2), "weight")


@scenario
def overrides_of_a_subclass_of_parameter(lib, kit):
    seen = []

    class Watched(lib.nn.Parameter):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append(func.__name__)
            return super().__torch_function__(func, types, args, kwargs or {})

    made = lib.add(Watched(lib.ones(2)), 1)
    return seen, made, type(made).__name__


@scenario
def repr_of_parameters_of_other_classes(lib, kit):
    class Special(lib.Tensor):
        pass

    class Named(lib.nn.Parameter):
        pass

    flagged = lib.ones(1)
    flagged._is_param = True
    parameter = lib.nn.Parameter(lib.ones(2).as_subclass(Special))
    return repr(parameter), repr(Named(lib.ones(1))), repr(flagged)


@scenario
def materializing_with_a_number_as_shape(lib, kit):
    parameter = lib.nn.parameter.UninitializedParameter()
    parameter.materialize(3)
    return parameter.shape


@scenario
def loading_into_an_uninitialized_parameter_of_a_plain_module(lib, kit):
    module = lib.nn.Module()
    module.weight = lib.nn.parameter.UninitializedParameter()
    module.load_state_dict({"weight": lib.ones(2)})
