"""`Tensor.grad_dtype`: gradients of another dtype than their leaf's."""

from tests.conformance.scenario import Table

scenario = Table()


def leaf(lib, dtype=None):
    x = lib.tensor([1.0, 2.0], requires_grad=True)
    if dtype is not None:
        x.grad_dtype = getattr(lib, dtype)
    return x


@scenario
def by_default_it_is_the_dtype_of_the_tensor(lib, kit):
    whole = lib.tensor([1])
    return leaf(lib).grad_dtype, whole.grad_dtype, lib.nn.Linear(1, 1).weight.grad_dtype


@scenario
def what_arrives_is_converted(lib, kit):
    grads = []
    for dtype in ("float16", "bfloat16", "float64"):
        x = leaf(lib, dtype)
        (x * x).sum().backward()
        first = x.grad.clone()
        (x * 3).sum().backward()
        grads += [first, x.grad, x.grad_dtype]
    return grads


@scenario
def hooks_get_what_has_been_converted(lib, kit):
    seen, x = [], leaf(lib, "float64")
    x.register_hook(lambda grad: seen.append(grad.dtype))
    x.register_post_accumulate_grad_hook(lambda x: seen.append(x.grad.dtype))
    (x * 2).sum().backward()
    return seen


@scenario
def grad_gives_what_has_been_converted(lib, kit):
    x = leaf(lib, "float64")
    return lib.autograd.grad((x * x).sum(), x), x.grad


@scenario
def recorded_gradients_are_converted_too(lib, kit):
    x = leaf(lib, "float64")
    (x * x).sum().backward(create_graph=True)
    first = x.grad
    return first, lib.autograd.grad(first.sum(), x)


@scenario
def none_allows_every_dtype(lib, kit):
    x = leaf(lib)
    x.grad_dtype = None
    x.grad = lib.ones(2, dtype=lib.float64)
    (x * 2).sum().backward()
    first, x.grad = x.grad, None
    (x * 2).sum().backward()
    return x.grad_dtype, first, x.grad


@scenario("grad_dtype")
def a_gradient_of_another_dtype(lib, kit):
    leaf(lib).grad = lib.ones(2, dtype=lib.float64)


@scenario
def a_gradient_of_the_dtype_that_is_said(lib, kit):
    x = leaf(lib, "float64")
    x.grad = lib.ones(2, dtype=lib.float64)
    (x * 2).sum().backward()
    return x.grad


@scenario("grad_dtype", "leaf")
def of_a_result(lib, kit):
    return (leaf(lib) * 2).grad_dtype


@scenario("grad_dtype", "leaf")
def set_on_a_result(lib, kit):
    (leaf(lib) * 2).grad_dtype = lib.float16


@scenario("grad_dtype", "str")
def set_to_no_dtype(lib, kit):
    leaf(lib).grad_dtype = "float16"


@scenario("grad_dtype")
def set_beside_a_gradient(lib, kit):
    x = leaf(lib)
    x.grad = lib.ones(2)
    x.grad_dtype = lib.float16


@scenario
def integers_hold_no_gradients(lib, kit):
    x = leaf(lib, "int32")
    (x * 2).sum().backward()


@scenario
def an_optimizer_steps_in_the_dtype_of_the_parameter(lib, kit):
    x = leaf(lib, "float64")
    optimizer = lib.optim.SGD([x], lr=0.25, momentum=0.5)
    for _ in range(2):
        optimizer.zero_grad()
        (x * x).sum().backward()
        optimizer.step()
    return x, x.grad
