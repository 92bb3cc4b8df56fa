"""Full backward hooks where gradients are missing, replaced or shared."""

import importlib

from tests.conformance.scenario import Table, leaf, recorder

scenario = Table()


def pre_recorder(seen):
    """A full backward pre-hook that notes what it is given."""

    def hook(module, grad_output):
        seen.append(("pre", grad_output))

    return hook


@scenario
def inputs_of_all_kinds(lib, kit):
    seen = []
    module = kit.Calls(lambda index, input, factor, constant: input * constant * factor)
    module.register_full_backward_hook(recorder(seen))
    module(lib.tensor([1, 2]), leaf(lib), 3.0, lib.ones(2)).sum().backward()
    return seen


@scenario
def no_tensor_among_the_inputs(lib, kit):
    seen = []

    class Model(lib.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = lib.nn.Parameter(lib.ones(2))

        def forward(self, factor):
            return self.weight * factor

    module = Model()
    module.register_full_backward_hook(recorder(seen))
    module(3.0).sum().backward()
    return seen, module.weight.grad


@scenario
def no_inputs_at_all(lib, kit):
    seen = []

    class Model(lib.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = lib.nn.Parameter(lib.ones(2))

        def forward(self):
            return self.weight * 2

    module = Model()
    module.register_full_backward_hook(recorder(seen))
    module().sum().backward()
    return seen


@scenario
def an_output_that_requires_no_grad(lib, kit):
    seen = []
    module = kit.Calls(lambda input: input.detach() * 2)
    module.register_full_backward_hook(recorder(seen))
    output = module(leaf(lib))
    return output.requires_grad, seen


@scenario
def none_among_the_outputs(lib, kit):
    seen = []
    module = kit.Calls(lambda input: (input * 2, None, input * 3))
    module.register_full_backward_hook(recorder(seen))
    output = module(leaf(lib))
    output[0].sum().backward()
    return seen, output[1]


@scenario
def one_of_three_outputs_is_used(lib, kit):
    seen = []
    module = kit.Calls(lambda input: (input.sum(), input[:1] * 2, input.detach()))
    module.register_full_backward_hook(recorder(seen))
    module.register_full_backward_pre_hook(pre_recorder(seen))
    input = leaf(lib)
    output = module(input)
    output[1].sum().backward()
    return seen, input.grad


@scenario
def one_tensor_as_two_inputs(lib, kit):
    seen = []
    module = kit.Calls(lambda one, other: one * 2 + other * 3)
    module.register_full_backward_hook(recorder(seen))
    input = leaf(lib)
    module(input, input).sum().backward()
    return seen, input.grad


@scenario
def one_tensor_as_two_outputs(lib, kit):
    seen = []

    class Model(lib.nn.Module):
        def forward(self, input):
            output = input * 2
            return output, output

    module = Model()
    module.register_full_backward_hook(recorder(seen))
    input = leaf(lib)
    one, other = module(input)
    (one * 3 + other).sum().backward()
    return seen, input.grad


@scenario
def an_output_that_is_the_input(lib, kit):
    seen = []
    module = lib.nn.Identity()
    module.register_full_backward_hook(recorder(seen))
    input = leaf(lib)
    output = module(input)
    (output * 2).sum().backward()
    return seen, input.grad, output is input


@scenario
def an_output_that_is_a_parameter(lib, kit):
    seen = []

    class Model(lib.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = lib.nn.Parameter(lib.ones(2))

        def forward(self, input):
            return self.weight

    module = Model()
    module.register_full_backward_hook(recorder(seen))
    input = leaf(lib)
    output = module(input)
    (output * 2).sum().backward()
    return seen, input.grad, module.weight.grad, type(output).__name__


@scenario
def an_input_that_is_a_parameter(lib, kit):
    seen = []
    module = kit.Echo()
    module.register_full_backward_hook(recorder(seen))
    weight = lib.nn.Parameter(lib.ones(2))
    output = module(weight)
    (output * 2).sum().backward()
    return seen, weight.grad, type(output).__name__


@scenario
def what_forward_gets_for_a_parameter(lib, kit):
    class Model(lib.nn.Module):
        def forward(self, input):
            self.found = (
                type(input).__name__,
                input.is_leaf,
                input.grad_fn.name() if input.grad_fn else None,
            )
            return input * 2

    module = Model()
    module.register_full_backward_hook(lambda *args: None)
    module(lib.nn.Parameter(lib.ones(2)))
    return module.found


@scenario
def one_module_on_two_branches(lib, kit):
    seen = []
    module = kit.Scale()
    module.register_full_backward_hook(recorder(seen))
    left, right = leaf(lib), leaf(lib, 5.0, 6.0)
    (module(left) * module(right)).sum().backward()
    return seen, left.grad, right.grad


@scenario
def no_grad_inside_forward(lib, kit):
    seen = []

    class Model(lib.nn.Module):
        def forward(self, input):
            with lib.no_grad():
                middle = input * 2
            return middle + input

    module = Model()
    module.register_full_backward_hook(recorder(seen))
    input = leaf(lib)
    module(input).sum().backward()
    return seen, input.grad


@scenario
def gradients_that_are_recorded(lib, kit):
    seen = []
    module = kit.Scale()
    module.register_full_backward_hook(
        lambda module, grad_input, grad_output: seen.append(
            (grad_input[0].requires_grad, grad_output[0].requires_grad)
        )
    )
    input = leaf(lib)
    output = (module(input) ** 3).sum()
    (grads,) = lib.autograd.grad(output, input, create_graph=True)
    grads.sum().backward()
    return seen, input.grad


@scenario
def gradients_of_gradients(lib, kit):
    seen = []
    module = kit.Scale()
    module.register_full_backward_hook(recorder(seen))
    input = leaf(lib)
    output = (module(input) ** 2).sum()
    (grads,) = lib.autograd.grad(output, input, create_graph=True)
    (grads**2).sum().backward()
    return seen, input.grad, module.weight.grad


@scenario
def gradients_of_parameters_only(lib, kit):
    seen = []
    module = kit.Scale()
    module.register_full_backward_hook(recorder(seen))
    module.register_full_backward_pre_hook(pre_recorder(seen))
    input = leaf(lib)
    grads = lib.autograd.grad(module(input).sum(), module.weight)
    return grads, seen


@scenario
def backward_with_inputs(lib, kit):
    seen = []
    module = kit.Scale()
    module.register_full_backward_hook(recorder(seen))
    input = leaf(lib)
    module(input).sum().backward(inputs=[module.weight])
    return seen, input.grad, module.weight.grad


@scenario
def none_as_output_warns(lib, kit):
    module = kit.Calls(lambda input: None)
    module.register_full_backward_hook(lambda *args: None)
    return module(leaf(lib))


@scenario
def no_outputs(lib, kit):
    module = kit.Calls(lambda input: ())
    module.register_full_backward_hook(lambda *args: None)
    return module(leaf(lib))


@scenario
def tensors_inside_a_tuple_among_the_inputs(lib, kit):
    seen = []
    module = kit.Calls(lambda nested, input: nested[0] * input)
    module.register_full_backward_hook(recorder(seen))
    input, inside = leaf(lib), leaf(lib)
    module((inside,), input).sum().backward()
    return seen, input.grad, inside.grad


@scenario
def a_custom_function_inside(lib, kit):
    seen = []

    class Tenfold(lib.autograd.Function):
        @staticmethod
        def forward(ctx, input):
            return input * 2

        @staticmethod
        def backward(ctx, grads):
            return grads * 10

    module = kit.Calls(lambda input: Tenfold.apply(input))
    module.register_full_backward_hook(recorder(seen))
    input = leaf(lib)
    module(input).sum().backward()
    return seen, input.grad


@scenario
def an_interrupted_backward_and_a_whole_one(lib, kit):
    seen = []
    module = kit.Scale()
    module.register_full_backward_hook(recorder(seen))
    input = leaf(lib)
    middle = input * 1
    output = module(middle)
    lib.autograd.grad(output.sum(), module.weight, retain_graph=True)
    output.sum().backward()
    return seen


@scenario
def a_hook_added_after_the_call(lib, kit):
    seen = []
    module = kit.Scale()
    input = leaf(lib)
    output = module(input)
    module.register_full_backward_hook(recorder(seen))
    output.sum().backward()
    return seen


@scenario
def a_hook_removed_after_the_call(lib, kit):
    seen = []
    module = kit.Scale()
    input = leaf(lib)
    handle = module.register_full_backward_hook(recorder(seen))
    output = module(input)
    handle.remove()
    output.sum().backward()
    return seen


@scenario
def an_old_hook_beside_a_global_full_one(lib, kit):
    seen = []
    module = kit.Scale()
    module.register_backward_hook(recorder(seen, "old"))
    lib.nn.modules.module.register_module_full_backward_hook(recorder(seen, "g"))
    input = leaf(lib)
    module(input).sum().backward()
    return seen, input.grad


@scenario
def a_full_hook_beside_a_global_old_one(lib, kit):
    seen = []
    module = kit.Scale()
    module.register_full_backward_hook(recorder(seen, "own"))
    lib.nn.modules.module.register_module_backward_hook(recorder(seen, "old"))
    input = leaf(lib)
    module(input).sum().backward()
    return seen, input.grad


@scenario
def global_hooks_on_a_tree(lib, kit):
    seen = []
    lib.nn.modules.module.register_module_full_backward_hook(
        lambda module, grad_input, grad_output: seen.append(type(module).__name__)
    )
    lib.nn.modules.module.register_module_full_backward_pre_hook(
        lambda module, grad_output: seen.append("pre" + type(module).__name__)
    )
    input = leaf(lib)
    kit.Deep()(input).sum().backward()
    return seen


@scenario
def a_forward_hook_that_replaces_the_output(lib, kit):
    seen = []
    module = kit.Scale()
    module.register_full_backward_hook(recorder(seen))
    module.register_forward_hook(lambda module, args, output: output * 10)
    input = leaf(lib)
    module(input).sum().backward()
    return seen


@scenario
def a_tensor_hook_on_the_output(lib, kit):
    seen = []
    module = kit.Scale()
    module.register_full_backward_hook(recorder(seen))
    input = leaf(lib)
    output = module(input)
    output.register_hook(lambda grads: seen.append(("t", grads)))
    output.retain_grad()
    (output * 2).sum().backward()
    return seen, output.grad


@scenario
def parameters_accumulate_before_the_hook(lib, kit):
    seen = []
    module = kit.Scale()
    module.register_full_backward_hook(
        lambda *args: seen.append(("hook", module.weight.grad is None))
    )
    module.weight.register_post_accumulate_grad_hook(lambda parameter: seen.append("acc"))
    module(leaf(lib)).sum().backward()
    return seen


@scenario
def an_lstm_with_nested_states(lib, kit):
    seen = []
    module = lib.nn.LSTM(2, 3)
    module.register_full_backward_hook(
        lambda module, grad_input, grad_output: seen.append(
            (
                [None if grads is None else tuple(grads.shape) for grads in grad_input],
                [None if grads is None else tuple(grads.shape) for grads in grad_output],
            )
        )
    )
    output, states = module(lib.ones(4, 1, 2, requires_grad=True))
    (output.sum() + states[0].sum()).backward()
    return seen


@scenario
def an_input_that_the_output_does_not_depend_on(lib, kit):
    seen = []
    module = kit.Calls(lambda used, unused: used * 2)
    module.register_full_backward_hook(recorder(seen))
    used, unused = leaf(lib), leaf(lib)
    module(used, unused).sum().backward()
    return seen, used.grad, unused.grad


@scenario
def a_parameter_that_forward_assigns_is_not_registered(lib, kit):
    class Model(lib.nn.Module):
        def forward(self, input):
            self.kept = input
            return input * 2

    module = Model()
    module.register_full_backward_hook(lambda *args: None)
    module(lib.nn.Parameter(lib.ones(2)))
    return list(module._parameters)


@scenario
def hooks_around_and_inside_a_checkpoint(lib, kit):
    checkpoint = importlib.import_module(f"{lib.__name__}.utils.checkpoint").checkpoint
    seen = []

    class Model(lib.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = kit.Scale()

        def forward(self, input):
            return checkpoint(self.inner, input, use_reentrant=False) * 2

    module = Model()
    module.register_full_backward_hook(recorder(seen, "outer"))
    module.inner.register_full_backward_hook(recorder(seen, "inner"))
    input = leaf(lib)
    module(module(input)).sum().backward()
    return seen, input.grad, module.inner.weight.grad
