"""What full backward hooks may put in the place of gradients."""

from tests.conformance.scenario import Table, leaf, recorder

scenario = Table()


@scenario
def a_hook_that_raises(lib, kit):
    module = kit.Scale()

    def bad(*args):
        raise KeyError("hook")

    module.register_full_backward_hook(bad)
    module(leaf(lib)).sum().backward()


@scenario
def a_hook_that_returns_a_number(lib, kit):
    module = kit.Scale()
    module.register_full_backward_hook(lambda *args: 5)
    input = leaf(lib)
    module(input).sum().backward()
    return input.grad


@scenario
def a_hook_that_returns_a_list(lib, kit):
    module = kit.Scale()
    module.register_full_backward_hook(lambda module, grad_input, grad_output: [grad_input[0] * 2])
    input = leaf(lib)
    module(input).sum().backward()
    return input.grad


@scenario
def a_hook_that_returns_a_number_for_a_gradient(lib, kit):
    module = kit.Scale()
    module.register_full_backward_hook(lambda module, grad_input, grad_output: (5,))
    input = leaf(lib)
    module(input).sum().backward()
    return input.grad


@scenario
def a_hook_that_ends_a_gradient(lib, kit):
    module = kit.Scale()
    module.register_full_backward_hook(lambda module, grad_input, grad_output: (None,))
    input = leaf(lib)
    module(input).sum().backward()
    return input.grad


@scenario
def a_pre_hook_that_ends_a_gradient(lib, kit):
    seen = []
    module = kit.Scale()
    module.register_full_backward_pre_hook(lambda module, grad_output: (None,))
    module.register_full_backward_hook(recorder(seen))
    input = leaf(lib)
    module(input).sum().backward()
    return input.grad, seen


@scenario
def a_hook_that_returns_another_shape(lib, kit):
    module = kit.Scale()
    module.register_full_backward_hook(lambda module, grad_input, grad_output: (lib.ones(3),))
    input = leaf(lib)
    module(input).sum().backward()
    return input.grad


@scenario
def a_hook_that_writes_to_a_gradient(lib, kit):
    module = kit.Scale()

    def hook(module, grad_input, grad_output):
        grad_input[0].mul_(5)

    module.register_full_backward_hook(hook)
    input = leaf(lib)
    module(input).sum().backward()
    return input.grad


@scenario
def a_gradient_for_an_input_that_is_not_used(lib, kit):
    module = kit.Calls(lambda used, unused: used * 2)
    module.register_full_backward_hook(
        lambda module, grad_input, grad_output: (grad_input[0], grad_input[1] + 7)
    )
    used, unused = leaf(lib), leaf(lib)
    module(used, unused).sum().backward()
    return used.grad, unused.grad


@scenario
def two_gradients_of_which_one_ends(lib, kit):
    module = kit.Calls(lambda used, unused: used * 2)
    module.register_full_backward_hook(
        lambda module, grad_input, grad_output: (None, grad_input[1] + 7)
    )
    used, unused = leaf(lib), leaf(lib)
    module(used, unused).sum().backward()
    return used.grad, unused.grad


@scenario
def a_pre_hook_that_ends_one_of_two_gradients(lib, kit):
    seen = []
    module = kit.Calls(lambda input: (input * 2, input * 3))
    module.register_full_backward_pre_hook(lambda module, grad_output: (grad_output[0], None))
    module.register_full_backward_hook(recorder(seen))
    input = leaf(lib)
    one, other = module(input)
    (one + other).sum().backward()
    return seen, input.grad


@scenario
def a_pre_hook_that_gives_an_unused_output_a_gradient(lib, kit):
    seen = []
    module = kit.Calls(lambda input: (input * 2, input * 3))
    module.register_full_backward_pre_hook(
        lambda module, grad_output: (grad_output[0], lib.ones(2) * 5)
    )
    module.register_full_backward_hook(recorder(seen))
    input = leaf(lib)
    used, _ = module(input)
    used.sum().backward()
    return seen, input.grad
