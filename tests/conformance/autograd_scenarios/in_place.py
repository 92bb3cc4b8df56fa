"""Writing in place and through views: values, gradients, and where history goes."""

from tests.conformance.scenario import Table

scenario = Table()


def leaf(lib, *values):
    """A leaf that requires grad."""
    return lib.tensor(values or (1.0, 2.0, 3.0), requires_grad=True)


@scenario
def a_result_written_in_place(lib, kit):
    x = leaf(lib)
    y = x * 2
    same = y.mul_(3)
    y.sum().backward()
    return same is y, y.detach(), x.grad, type(y.grad_fn)


@scenario
def a_tensor_that_required_no_grad(lib, kit):
    x, y = leaf(lib), lib.zeros(3)
    y.add_(x * x)
    y.sum().backward()
    return y.requires_grad, y.is_leaf, x.grad


@scenario
def a_result_overwritten_by_a_constant(lib, kit):
    x = leaf(lib)
    y = x * 2
    y.zero_()
    y.sum().backward()
    return y.requires_grad, x.grad


@scenario("leaf")
def a_leaf_written_in_place(lib, kit):
    leaf(lib).add_(1)


@scenario("view", "leaf")
def a_view_of_a_leaf_written_in_place(lib, kit):
    leaf(lib)[0].add_(1)


@scenario("leaf")
def a_leaf_assigned_to(lib, kit):
    leaf(lib)[0] = 1.0


@scenario
def a_leaf_written_under_no_grad(lib, kit):
    x = leaf(lib)
    with lib.no_grad():
        x.add_(1)
        x[0] = 7.0
    (x * x).sum().backward()
    return x.is_leaf, x.grad


@scenario
def a_leaf_written_through_data_and_detach(lib, kit):
    x = leaf(lib)
    x.data.mul_(2)
    x.detach()[0] = 5.0
    (x * x).sum().backward()
    return x.detach(), x.grad


@scenario
def a_base_written_through_a_view(lib, kit):
    x = leaf(lib)
    y = x * 2
    y[1:].mul_(10)
    y.sum().backward()
    return y.detach(), x.grad, y.grad_fn is not None


@scenario
def a_view_that_existed_before_the_write(lib, kit):
    x = leaf(lib)
    y = x * 2
    before, middle = y[:2], y[1]
    y[1:].mul_(10)
    (before.sum() + middle * 3).backward()
    return before.detach(), middle.detach(), x.grad


@scenario
def a_view_of_a_written_base(lib, kit):
    x = leaf(lib)
    y = x * 2
    view = y[:2]
    y.mul_(3)
    (view * view).sum().backward()
    return view.detach(), x.grad


@scenario
def assignment_by_index(lib, kit):
    x, w = leaf(lib), leaf(lib, 5.0)
    y = x * 2
    y[1] = w[0] * w[0]
    (y * y).sum().backward()
    return y.detach(), x.grad, w.grad


@scenario
def assignment_into_a_fresh_tensor(lib, kit):
    x = leaf(lib)
    y = lib.zeros(2, 3)
    y[0] = x * x
    y[1, :2] = x[:2]
    y.sum().backward()
    return y.detach(), x.grad


@scenario
def assignment_in_a_loop(lib, kit):
    x = leaf(lib)
    y = lib.zeros(3)
    for i in range(3):
        y[i] = x[i] * (i + 1)
    (y * y).sum().backward()
    return y.detach(), x.grad


@scenario
def a_chain_of_views_written(lib, kit):
    x = lib.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    y = x * 1
    y.t()[0].mul_(3)
    y.view(4)[3:].add_(1)
    (y * y).sum().backward()
    return y.detach(), x.grad


@scenario
def a_write_after_the_value_was_used(lib, kit):
    x = leaf(lib)
    y = x * 2
    used = y + 1
    y.mul_(5)
    (used.sum() + y.sum()).backward()
    return x.grad


@scenario
def two_writes_with_a_use_between(lib, kit):
    x = leaf(lib)
    y = x + 0
    y.add_(x)
    half = y.sum()
    y.add_(x)
    (half + y.sum()).backward()
    return x.grad


@scenario
def copy_into_a_view(lib, kit):
    x, w = leaf(lib), leaf(lib, 7.0, 8.0)
    y = x * 2
    y[1:].copy_(w * w)
    y.sum().backward()
    return y.detach(), x.grad, w.grad


@scenario
def views_made_together_cannot_be_written(lib, kit):
    (leaf(lib) * 2).unbind(0)[0].mul_(2)


@scenario
def split_views_cannot_be_written(lib, kit):
    (leaf(lib) * 2).split(2)[0].mul_(2)


@scenario
def a_view_made_in_no_grad_mode_cannot_be_written(lib, kit):
    y = leaf(lib) * 2
    with lib.no_grad():
        view = y[:1]
    view.mul_(2)


@scenario
def a_view_made_and_written_in_no_grad_mode(lib, kit):
    x = leaf(lib)
    y = x * 2
    with lib.no_grad():
        y[:1].mul_(10)
    y.sum().backward()
    return y.detach(), x.grad


@scenario
def a_view_detached_in_place(lib, kit):
    (leaf(lib) * 2)[0].detach_()


@scenario
def a_result_detached_in_place(lib, kit):
    y = leaf(lib) * 2
    y.detach_()
    return y.requires_grad, y.is_leaf


@scenario
def a_detached_tensor_shares_elements(lib, kit):
    x = leaf(lib)
    detached = x.detach()
    detached.mul_(2)
    return x.detach(), detached.requires_grad, detached._is_view(), x[0]._is_view()


@scenario
def versions_count_writes(lib, kit):
    x = lib.zeros(3)
    seen = [x._version]
    x.add_(1)
    seen.append(x._version)
    x[0] = 2.0
    seen.append(x._version)
    view = x[1:]
    view.mul_(2)
    seen += [x._version, view._version]
    lib.autograd.graph.increment_version(x)
    return [*seen, x._version]


@scenario
def requires_grad_follows_a_write_to_the_base(lib, kit):
    x, y = leaf(lib), lib.zeros(3)
    view = y[:2]
    before = view.requires_grad
    y.add_(x)
    return before, view.requires_grad, view.grad_fn is not None


@scenario
def requires_grad_of_a_base_follows_a_write_to_a_view(lib, kit):
    x, y = leaf(lib), lib.zeros(3)
    other = y[1:]
    y[:1].add_(x[:1])
    y.sum().backward()
    return y.requires_grad, other.requires_grad, x.grad


@scenario
def a_write_of_another_dtype(lib, kit):
    x = lib.tensor([1.0, 2.0], dtype=lib.float64, requires_grad=True)
    y = lib.zeros(2)
    y.add_(x)
    y.sum().backward()
    return y.dtype, x.grad


@scenario
def a_float_result_into_integers(lib, kit):
    lib.zeros(2, dtype=lib.int64).add_(1.5)


@scenario
def out_with_gradients(lib, kit):
    lib.add(leaf(lib), 1, out=lib.zeros(3))


@scenario
def unsqueeze_in_place(lib, kit):
    x = leaf(lib)
    y = x * 2
    y.unsqueeze_(0)
    (y * y).sum().backward()
    return tuple(y.shape), x.grad
