"""Hooks on the gradients that pass through a call of a module."""

from collections import namedtuple

from tests.conformance.scenario import Table, leaf, recorder

scenario = Table()


@scenario
def a_full_hook_sees_both_gradients(lib, kit):
    seen = []
    scale = kit.Scale()
    scale.register_full_backward_hook(recorder(seen, "full"))
    x = leaf(lib)
    (scale(x) * 5).sum().backward()
    return seen, x.grad, scale.weight.grad


@scenario
def a_full_hook_around_several_operators(lib, kit):
    seen = []
    model = kit.Deep()
    model.register_full_backward_hook(recorder(seen, "full"))
    x = leaf(lib)
    model(x).sum().backward()
    return seen, x.grad, model.bias.grad


@scenario
def a_full_hook_replaces_grad_input(lib, kit):
    scale = kit.Scale()
    scale.register_full_backward_hook(lambda module, before, after: (before[0] * 10,))
    x = leaf(lib)
    scale(x).sum().backward()
    return x.grad, scale.weight.grad


@scenario
def full_hooks_chain(lib, kit):
    seen = []
    scale = kit.Scale()
    scale.register_full_backward_hook(lambda module, before, after: (before[0] * 10,))
    scale.register_full_backward_hook(recorder(seen, "second"))
    scale.register_full_backward_hook(recorder(seen, "prepended"), prepend=True)
    scale(leaf(lib)).sum().backward()
    return seen


@scenario
def a_full_hook_returns_too_many(lib, kit):
    scale = kit.Scale()
    scale.register_full_backward_hook(lambda module, before, after: (before[0], before[0]))
    scale(leaf(lib)).sum().backward()


@scenario
def a_pre_hook_sees_grad_output(lib, kit):
    seen = []
    scale = kit.Scale()
    scale.register_full_backward_pre_hook(recorder(seen, "pre"))
    x = leaf(lib)
    (scale(x) * 5).sum().backward()
    return seen, x.grad


@scenario
def a_pre_hook_replaces_grad_output(lib, kit):
    seen = []
    scale = kit.Scale()
    scale.register_full_backward_pre_hook(lambda module, grads: (grads[0] * 10,))
    scale.register_full_backward_hook(recorder(seen, "full"))
    x = leaf(lib)
    scale(x).sum().backward()
    return seen, x.grad, scale.weight.grad


@scenario
def pre_hooks_chain_and_can_be_prepended(lib, kit):
    seen = []
    scale = kit.Scale()
    scale.register_full_backward_pre_hook(lambda module, grads: (grads[0] * 10,))
    scale.register_full_backward_pre_hook(recorder(seen, "second"))
    scale.register_full_backward_pre_hook(recorder(seen, "prepended"), prepend=True)
    scale(leaf(lib)).sum().backward()
    return seen


@scenario
def a_pre_hook_returns_too_many(lib, kit):
    scale = kit.Scale()
    scale.register_full_backward_pre_hook(lambda module, grads: (grads[0], grads[0]))
    scale(leaf(lib)).sum().backward()


@scenario
def order_of_hooks_in_a_tree(lib, kit):
    seen = []
    model = kit.Deep()
    for name, module in model.named_modules():
        module.register_full_backward_pre_hook(
            lambda module, grads, name=name: seen.append(f"pre {name}")
        )
        module.register_full_backward_hook(
            lambda module, before, after, name=name: seen.append(f"post {name}")
        )
    model(leaf(lib)).sum().backward()
    return seen


@scenario
def global_hooks_come_first(lib, kit):
    seen = []
    hooks = lib.nn.modules.module
    scale = kit.Scale()
    scale.register_full_backward_hook(recorder(seen, "own"))
    scale.register_full_backward_pre_hook(recorder(seen, "own pre"))
    hooks.register_module_full_backward_hook(recorder(seen, "global"))
    hooks.register_module_full_backward_pre_hook(recorder(seen, "global pre"))
    scale(leaf(lib)).sum().backward()
    return seen


@scenario
def an_input_that_needs_no_gradient(lib, kit):
    seen = []
    scale = kit.Scale()
    scale.register_full_backward_hook(recorder(seen, "full"))
    scale.register_full_backward_pre_hook(recorder(seen, "pre"))
    scale(lib.ones(2)).sum().backward()
    return seen, scale.weight.grad


@scenario
def an_input_that_needs_no_gradient_but_gets_one(lib, kit):
    scale = kit.Scale()
    scale.register_full_backward_hook(lambda module, before, after: (after[0],))
    scale(lib.ones(2)).sum().backward()


@scenario
def some_inputs_need_no_gradient(lib, kit):
    seen = []
    product = kit.Calls(lambda x, y, factor: x * y * factor)
    product.register_full_backward_hook(recorder(seen, "full"))
    product(leaf(lib), lib.ones(2), 3).sum().backward()
    return seen


@scenario
def keyword_inputs_are_not_seen(lib, kit):
    seen = []
    product = kit.Calls(lambda x, y: x * y)
    product.register_full_backward_hook(recorder(seen, "full"))
    y = leaf(lib)
    product(leaf(lib), y=y).sum().backward()
    return seen, y.grad


@scenario
def several_outputs_all_used(lib, kit):
    seen = []
    two = kit.Calls(lambda x: (x * 2, x * 3))
    two.register_full_backward_hook(recorder(seen, "full"))
    x = leaf(lib)
    first, second = two(x)
    (first + second * 10).sum().backward()
    return seen, x.grad


@scenario
def several_outputs_of_which_one_needs_no_gradient(lib, kit):
    seen = []
    two = kit.Calls(lambda x: (x * 2, lib.ones(1)))
    two.register_full_backward_hook(recorder(seen, "full"))
    x = leaf(lib)
    first, second = two(x)
    first.sum().backward()
    return seen, x.grad, second.requires_grad


@scenario
def an_integer_among_the_outputs(lib, kit):
    seen = []
    two = kit.Calls(lambda x: (x * 2, 7))
    two.register_full_backward_hook(recorder(seen, "full"))
    first, second = two(leaf(lib))
    first.sum().backward()
    return seen, second


@scenario
def a_named_tuple_as_output(lib, kit):
    pair = namedtuple("pair", ["left", "right"])

    seen = []
    two = kit.Calls(lambda x: pair(x * 2, x * 3))
    two.register_full_backward_hook(recorder(seen, "full"))
    result = two(leaf(lib))
    (result.left + result.right).sum().backward()
    return seen, type(result).__name__


@scenario
def a_list_inside_the_output(lib, kit):
    seen = []
    nested = kit.Calls(lambda x: (x * 2, [x * 3]))
    nested.register_full_backward_hook(recorder(seen, "full"))
    x = leaf(lib)
    first, (second,) = nested(x)
    (first + second).sum().backward()
    return seen, x.grad


@scenario
def a_dictionary_as_output_warns(lib, kit):
    seen = []
    named = kit.Calls(lambda x: {"out": x * 2})
    named.register_full_backward_hook(recorder(seen, "full"))
    x = leaf(lib)
    named(x)["out"].sum().backward()
    return seen, x.grad


@scenario
def without_grad_nothing_is_hooked(lib, kit):
    seen = []
    scale = kit.Scale()
    scale.register_full_backward_hook(recorder(seen, "full"))
    with lib.no_grad():
        result = scale(leaf(lib))
    return seen, result.requires_grad


@scenario
def two_calls_of_one_module(lib, kit):
    seen = []
    scale = kit.Scale()
    scale.register_full_backward_hook(recorder(seen, "full"))
    x = leaf(lib)
    scale(scale(x)).sum().backward()
    return seen, x.grad


@scenario
def backward_twice_through_one_call(lib, kit):
    seen = []
    scale = kit.Scale()
    scale.register_full_backward_hook(recorder(seen, "full"))
    x = leaf(lib)
    total = scale(x).sum()
    total.backward(retain_graph=True)
    total.backward()
    return seen, x.grad


@scenario
def the_node_behind_a_hooked_output(lib, kit):
    scale = kit.Scale()
    scale.register_full_backward_hook(recorder([], "full"))
    return scale(leaf(lib)).grad_fn.name()


@scenario
def gradients_towards_the_output_only(lib, kit):
    seen = []
    scale = kit.Scale()
    scale.register_full_backward_hook(recorder(seen, "full"))
    x = leaf(lib)
    y = scale(x)
    grads = lib.autograd.grad(y.sum(), (scale.weight,))
    return seen, grads


@scenario
def removing_a_gradient_hook(lib, kit):
    seen = []
    scale = kit.Scale()
    handle = scale.register_full_backward_hook(recorder(seen, "full"))
    handle.remove()
    scale(leaf(lib)).sum().backward()
    return seen, len(scale._backward_hooks), scale._is_full_backward_hook


@scenario
def a_full_hook_after_an_old_one(lib, kit):
    scale = kit.Scale()
    scale.register_backward_hook(recorder([], "old"))
    scale.register_full_backward_hook(recorder([], "full"))


@scenario
def an_old_hook_after_a_full_one(lib, kit):
    scale = kit.Scale()
    scale.register_full_backward_hook(recorder([], "full"))
    scale.register_backward_hook(recorder([], "old"))


@scenario
def a_global_full_hook_after_a_global_old_one(lib, kit):
    hooks = lib.nn.modules.module
    hooks.register_module_backward_hook(recorder([], "old"))
    hooks.register_module_full_backward_hook(recorder([], "full"))


@scenario
def a_global_old_hook_after_a_global_full_one(lib, kit):
    hooks = lib.nn.modules.module
    hooks.register_module_full_backward_hook(recorder([], "full"))
    hooks.register_module_backward_hook(recorder([], "old"))


@scenario
def an_old_hook_on_one_operator(lib, kit):
    seen = []
    product = kit.Calls(lambda x, y: x * y)
    product.register_backward_hook(recorder(seen, "old"))
    x, y = leaf(lib) * 1, leaf(lib) * 1
    product(x, y).sum().backward()
    return seen


@scenario
def an_old_hook_on_several_operators_warns(lib, kit):
    seen = []
    steps = kit.Calls(lambda x: (x * 3) * 5)
    steps.register_backward_hook(recorder(seen, "old"))
    steps(leaf(lib) * 1).sum().backward()
    return [label for label, *_ in seen], seen[0][2]


@scenario
def an_old_hook_on_a_dictionary_warns(lib, kit):
    seen = []
    named = kit.Calls(lambda x: {"size": 3, "out": x * 2})
    named.register_backward_hook(recorder(seen, "old"))
    named(leaf(lib) * 1)["out"].sum().backward()
    return [label for label, *_ in seen]


@scenario
def an_old_hook_on_nested_tuples(lib, kit):
    seen = []
    nested = kit.Calls(lambda x: ((x * 2, x * 3), x))
    nested.register_backward_hook(recorder(seen, "old"))
    nested(leaf(lib) * 1)[0][0].sum().backward()
    return [label for label, *_ in seen]


@scenario
def an_old_hook_on_several_outputs_warns(lib, kit):
    seen = []
    two = kit.Calls(lambda x: (x * 2, x * 3))
    two.register_backward_hook(recorder(seen, "old"))
    first, second = two(leaf(lib) * 1)
    (first + second).sum().backward()
    return [label for label, *_ in seen]


@scenario
def an_old_hook_with_an_argument_that_is_no_tensor_warns(lib, kit):
    seen = []
    product = kit.Calls(lambda x, factor: x * factor)
    product.register_backward_hook(recorder(seen, "old"))
    product(leaf(lib) * 1, 2).sum().backward()
    return [label for label, *_ in seen]


@scenario
def an_old_hook_replaces_grad_input(lib, kit):
    product = kit.Calls(lambda x, y: x * y)
    product.register_backward_hook(lambda module, before, after: (before[0] * 10, before[1]))
    x = leaf(lib)
    product(x * 1, leaf(lib) * 1).sum().backward()
    return x.grad


@scenario
def an_old_global_hook(lib, kit):
    seen = []
    product = kit.Calls(lambda x, y: x * y)
    lib.nn.modules.module.register_module_backward_hook(recorder(seen, "global"))
    product.register_backward_hook(recorder(seen, "own"))
    product(leaf(lib) * 1, leaf(lib) * 1).sum().backward()
    return seen


@scenario
def forward_hooks_see_the_hooked_input(lib, kit):
    seen = []
    scale = kit.Scale()
    scale.register_full_backward_hook(recorder([], "full"))
    scale.register_forward_hook(
        lambda module, args, output: seen.append((args[0].is_leaf, output.grad_fn.name()))
    )
    scale(leaf(lib))
    return seen
