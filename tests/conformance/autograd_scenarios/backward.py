"""Gradients by `backward` and `grad`: values, accumulation, freeing, arguments."""

from tests.conformance.scenario import Table

scenario = Table()


def leaf(lib, *values):
    """A leaf that requires grad."""
    return lib.tensor(values or (1.0, 2.0), requires_grad=True)


@scenario
def a_leaf_accumulates(lib, kit):
    x = leaf(lib)
    (x * 2).sum().backward()
    first = x.grad.clone()
    (x * 3).sum().backward()
    return first, x.grad


@scenario
def the_second_gradient_is_added_in_place(lib, kit):
    x = leaf(lib)
    (x * 2).sum().backward()
    grad = x.grad
    (x * 3).sum().backward()
    return x.grad is grad, grad


@scenario
def under_create_graph_the_second_gradient_is_a_new_tensor(lib, kit):
    x = leaf(lib)
    (x * 2).sum().backward()
    grad = x.grad
    (x * x).sum().backward(create_graph=True)
    return x.grad is grad, grad, x.grad, x.grad.requires_grad


@scenario
def a_gradient_given_to_a_leaf_is_copied(lib, kit):
    outcomes = []
    for create_graph in (False, True):
        x = leaf(lib)
        given = lib.ones(2)
        x.backward(given, create_graph=create_graph)
        given.mul_(5)
        outcomes.append((x.grad, x.grad is given))
    return outcomes


@scenario
def one_tensor_used_many_times(lib, kit):
    x = leaf(lib)
    y = x * x
    (y * x + y - x).sum().backward()
    return x.grad


@scenario
def a_diamond(lib, kit):
    x = leaf(lib)
    y = x * 2
    left, right = y * 3, y * y
    (left + right).sum().backward()
    return x.grad


@scenario
def several_roots(lib, kit):
    x = leaf(lib)
    lib.autograd.backward([x.sum(), (x * x).sum()])
    return x.grad


@scenario
def several_roots_with_gradients(lib, kit):
    x = leaf(lib)
    lib.autograd.backward([x * 2, x * x], [lib.ones(2), lib.tensor([1.0, 10.0])])
    return x.grad


@scenario
def one_root_inside_the_graph_of_another(lib, kit):
    x = leaf(lib)
    y = x * 2
    lib.autograd.backward([y.sum(), (y * y).sum()])
    return x.grad


@scenario
def a_gradient_of_another_dtype_is_converted(lib, kit):
    x = leaf(lib)
    (x * 2).backward(lib.ones(2, dtype=lib.float64))
    return x.grad


@scenario
def an_integer_gradient_is_converted(lib, kit):
    x = leaf(lib)
    (x * 2).backward(lib.tensor([1, 2]))
    return x.grad


@scenario("[3]", "[2]")
def a_gradient_of_another_shape(lib, kit):
    (leaf(lib) * 2).backward(lib.ones(3))


@scenario("complex64", "float32")
def a_complex_gradient_of_a_real_tensor(lib, kit):
    (leaf(lib) * 2).backward(lib.ones(2, dtype=lib.complex64))


@scenario
def a_number_as_gradient(lib, kit):
    (leaf(lib) * 2).backward(1.0)


@scenario
def no_gradient_for_a_tensor_of_several_elements(lib, kit):
    (leaf(lib) * 2).backward()


@scenario
def no_gradient_for_one_element_in_several_dimensions(lib, kit):
    x = lib.ones(1, 1, requires_grad=True)
    (x * 3).backward()
    return x.grad


@scenario("complex64")
def no_gradient_for_a_complex_scalar(lib, kit):
    (leaf(lib) * (1 + 1j)).sum().backward()


@scenario("does not require grad", "grad_fn")
def backward_of_what_requires_no_grad(lib, kit):
    lib.ones(2).sum().backward()


@scenario("second time")
def a_second_backward(lib, kit):
    x = leaf(lib)
    y = (x * x).sum()
    y.backward()
    y.backward()


@scenario
def a_second_backward_through_what_saves_nothing(lib, kit):
    x = leaf(lib)
    y = (x + x).sum()
    y.backward()
    y.backward()
    return x.grad


@scenario
def a_second_backward_with_the_graph_retained(lib, kit):
    x = leaf(lib)
    y = (x * x).sum()
    y.backward(retain_graph=True)
    y.backward()
    return x.grad


@scenario
def a_failed_second_backward_leaves_other_parts_usable(lib, kit):
    x = leaf(lib)
    shared = x * x
    first, second = (shared * 2).sum(), (shared * 3).sum()
    first.backward()
    try:
        second.backward()
    except RuntimeError:
        return x.grad


@scenario
def create_graph_keeps_the_graph(lib, kit):
    x = leaf(lib)
    y = (x * x * x).sum()
    (first,) = lib.autograd.grad(y, x, create_graph=True)
    (again,) = lib.autograd.grad(y, x)
    return first.detach(), again, first.requires_grad, again.requires_grad


@scenario
def derivatives_to_the_third_order(lib, kit):
    x = leaf(lib)
    y = (x**4).sum()
    found = []
    for _ in range(3):
        (y,) = lib.autograd.grad(y.sum(), x, create_graph=True)
        found.append(y.detach())
    return found


@scenario
def a_mixed_second_derivative(lib, kit):
    x, w = leaf(lib), leaf(lib, 3.0, 4.0)
    (by_x,) = lib.autograd.grad((x * x * w).sum(), x, create_graph=True)
    return lib.autograd.grad(by_x.sum(), [x, w])


@scenario
def a_gradient_penalty(lib, kit):
    x, w = leaf(lib), leaf(lib, 3.0, 4.0)
    (by_x,) = lib.autograd.grad((x * w).sum(), x, create_graph=True)
    ((by_x * by_x).sum() - 1).backward()
    return w.grad, x.grad


@scenario
def what_a_second_derivative_does_not_depend_on(lib, kit):
    x, w = leaf(lib), leaf(lib, 3.0, 4.0)
    (by_x,) = lib.autograd.grad((x * w).sum(), x, create_graph=True)
    return lib.autograd.grad(by_x.sum(), [x, w], allow_unused=True)


@scenario
def the_gradient_of_a_linear_function_requires_no_grad(lib, kit):
    x = leaf(lib)
    (by_x,) = lib.autograd.grad((x * 2).sum(), x, create_graph=True)
    return by_x.requires_grad, by_x


@scenario
def grad_leaves_grad_alone(lib, kit):
    x = leaf(lib)
    found = lib.autograd.grad((x * x).sum(), x)
    return found, x.grad, type(found)


@scenario
def grad_by_what_is_no_leaf(lib, kit):
    x = leaf(lib)
    y = x * 3
    return lib.autograd.grad((y * y).sum(), [y, x])


@scenario
def grad_by_the_output_itself(lib, kit):
    x = leaf(lib)
    y = x * 3
    return lib.autograd.grad(y, y, lib.tensor([5.0, 6.0]))


@scenario
def grad_by_the_same_input_twice(lib, kit):
    x = leaf(lib)
    return lib.autograd.grad((x * x).sum(), [x, x])


@scenario
def grad_of_several_outputs(lib, kit):
    x = leaf(lib)
    return lib.autograd.grad([x * 2, x * x], [x], [lib.ones(2), lib.tensor([1.0, 10.0])])


@scenario
def grad_frees_what_it_ran_through(lib, kit):
    x = leaf(lib)
    y = x * x
    z = (y * y).sum()
    lib.autograd.grad(z, y)
    (x * 1).sum().backward()
    first = x.grad.clone()
    y.sum().backward()
    return first, x.grad


@scenario("not", "used")
def grad_by_an_unused_input(lib, kit):
    lib.autograd.grad((leaf(lib) * 2).sum(), leaf(lib))


@scenario
def grad_by_an_unused_input_that_is_allowed(lib, kit):
    x, y = leaf(lib), leaf(lib)
    return lib.autograd.grad((x * 2).sum(), [x, y], allow_unused=True)


@scenario
def grad_with_zeros_for_unused_inputs(lib, kit):
    x, y = leaf(lib), leaf(lib)
    return lib.autograd.grad((x * 2).sum(), [x, y], materialize_grads=True)


@scenario("allow_unused")
def grad_with_contradicting_arguments(lib, kit):
    x = leaf(lib)
    lib.autograd.grad((x * 2).sum(), x, materialize_grads=True, allow_unused=False)


@scenario("does not require grad")
def grad_by_what_requires_no_grad(lib, kit):
    lib.autograd.grad((leaf(lib) * 2).sum(), lib.ones(2))


@scenario
def grad_by_nothing(lib, kit):
    lib.autograd.grad((leaf(lib) * 2).sum(), [])


@scenario
def grad_by_a_number(lib, kit):
    lib.autograd.grad(leaf(lib).sum(), 3)


@scenario
def batched_cotangents(lib, kit):
    x = leaf(lib)
    y = x * x
    return lib.autograd.grad(y, x, lib.eye(2), is_grads_batched=True)


@scenario
def batched_cotangents_of_several_outputs(lib, kit):
    x, w = leaf(lib), leaf(lib, 3.0, 4.0)
    batches = [lib.eye(2), lib.tensor([[1.0, 1.0], [2.0, 2.0]])]
    return lib.autograd.grad([x * w, x * x], [x, w], batches, is_grads_batched=True)


@scenario
def batched_cotangents_of_the_wrong_shape(lib, kit):
    x = leaf(lib)
    lib.autograd.grad(x * x, x, lib.ones(2), is_grads_batched=True)


@scenario
def backward_into_some_inputs(lib, kit):
    x, w = leaf(lib), leaf(lib, 3.0, 4.0)
    (x * w).sum().backward(inputs=[x])
    return x.grad, w.grad


@scenario
def backward_into_what_is_no_leaf(lib, kit):
    x = leaf(lib)
    y = x * 3
    (y * y).sum().backward(inputs=[y])
    return x.grad, y.grad, y.retains_grad


@scenario
def backward_into_a_leaf_and_what_is_made_from_it(lib, kit):
    x = leaf(lib)
    y = x * 3
    (y * y).sum().backward(inputs=[x, y])
    return x.grad, y.grad


@scenario
def backward_into_nothing(lib, kit):
    (leaf(lib) * 2).sum().backward(inputs=[])


@scenario
def backward_into_what_requires_no_grad(lib, kit):
    (leaf(lib) * 2).sum().backward(inputs=[lib.ones(2)])


@scenario
def backward_of_nothing(lib, kit):
    return lib.autograd.backward([])


@scenario
def an_unused_leaf_has_no_grad(lib, kit):
    x, w = leaf(lib), leaf(lib)
    (x * 2).sum().backward()
    return w.grad


@scenario
def a_grad_set_by_hand_is_added_to(lib, kit):
    x = leaf(lib)
    x.grad = lib.tensor([10.0, 20.0])
    (x * 2).sum().backward()
    return x.grad


@scenario("[3]", "[2]")
def a_grad_of_another_shape(lib, kit):
    leaf(lib).grad = lib.ones(3)


@scenario
def a_grad_of_another_dtype(lib, kit):
    leaf(lib).grad = lib.ones(2, dtype=lib.float64)


@scenario
def a_grad_that_is_no_tensor(lib, kit):
    leaf(lib).grad = 3


@scenario
def a_tensor_as_its_own_grad(lib, kit):
    x = leaf(lib)
    x.grad = x


@scenario
def a_grad_deleted(lib, kit):
    x = leaf(lib)
    (x * 2).sum().backward()
    del x.grad
    return x.grad


@scenario
def what_is_a_leaf(lib, kit):
    x = leaf(lib)
    y = x * 2
    with lib.no_grad():
        z = x * 2
    tensors = (x, y, z, y.detach(), lib.ones(2), x.clone(), x.detach().requires_grad_())
    return [(each.is_leaf, each.requires_grad, each.grad_fn is None) for each in tensors]


@scenario
def requires_grad_of_a_leaf_switched_off_and_on(lib, kit):
    x = leaf(lib)
    x.requires_grad_(False)
    y = x * 2
    x.requires_grad = True
    z = x * 2
    return y.requires_grad, z.requires_grad


@scenario
def requires_grad_of_a_result_cannot_be_switched_off(lib, kit):
    (leaf(lib) * 2).requires_grad = False


@scenario("floating point")
def requires_grad_of_integers(lib, kit):
    lib.tensor([1, 2]).requires_grad_()


@scenario
def a_leaf_frozen_between_forward_and_backward(lib, kit):
    x = leaf(lib)
    y = (x * x).sum()
    x.requires_grad_(False)
    y.backward()
    return x.grad


@scenario
def hooks_of_a_leaf_frozen_between_forward_and_backward(lib, kit):
    x, seen = leaf(lib), []
    x.register_hook(lambda grad: seen.append("tensor"))
    x.register_post_accumulate_grad_hook(lambda t: seen.append("accumulated"))
    y = (x * x).sum()
    x.requires_grad_(False)
    y.backward()
    return seen, x.grad


@scenario
def complex_gradients(lib, kit):
    z = lib.tensor([1 + 2j, 3 - 1j], requires_grad=True)
    (z * z.conj()).real.sum().backward()
    return z.grad


@scenario
def a_holomorphic_gradient(lib, kit):
    z = lib.tensor([1 + 2j, 3 - 1j], requires_grad=True)
    return lib.autograd.grad(z * z, z, lib.tensor([1.0 + 0j, 1j]))


@scenario
def gradients_of_broadcast_operands(lib, kit):
    x, w = lib.ones(2, 3, requires_grad=True), leaf(lib, 1.0, 2.0, 3.0)
    (x * w).sum().backward()
    return x.grad, w.grad


@scenario
def gradients_of_promoted_operands(lib, kit):
    x = leaf(lib)
    w = lib.tensor([3.0, 4.0], dtype=lib.float64, requires_grad=True)
    y = x * w
    y.sum().backward()
    return y.dtype, x.grad, w.grad


@scenario
def a_backward_inside_no_grad(lib, kit):
    x = leaf(lib)
    y = (x * x).sum()
    with lib.no_grad():
        y.backward()
    return x.grad


@scenario
def gradients_on_the_meta_device(lib, kit):
    x = lib.ones(2, 3, device="meta", requires_grad=True)
    (x * x).sum().backward()
    return x.grad
