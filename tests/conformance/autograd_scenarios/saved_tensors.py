"""`autograd.graph.saved_tensors_hooks`: what is saved, in another form."""

from tests.conformance.scenario import Table

scenario = Table()


def leaf(lib):
    return lib.tensor([1.0, 2.0], requires_grad=True)


def hooked(lib, pack, unpack):
    return lib.autograd.graph.saved_tensors_hooks(pack, unpack)


def packing(name, pack=lambda t: t, unpack=lambda t: t):
    """A scenario that squares a leaf under hooks."""

    def run(lib, kit):
        x = leaf(lib)
        with hooked(lib, pack, unpack):
            y = x * x
        y.sum().backward()
        return x.grad

    run.__name__ = name
    scenario(run)


packing("nothing_changes")
packing("packed_ten_times", lambda t: t * 10)
packing("packed_as_python", lambda t: (t.tolist(), t.dtype, type(t)), lambda p: _made(p))
packing("unpacked_ten_times", lambda t: t, lambda t: t * 10)
packing("a_pack_hook_that_fails", lambda t: 1 / 0)
packing("an_unpack_hook_that_fails", lambda t: t, lambda t: 1 / 0)
packing("an_unpack_hook_that_gives_a_number", lambda t: t, lambda t: 3)
packing("an_unpack_hook_that_gives_nothing", lambda t: t, lambda t: None)
packing(
    "a_pack_hook_that_writes", lambda t: t.data.add_(1) if not t.is_leaf else t.detach().add_(1)
)
packing("hooks_that_are_none", None, None)


def _made(packed):
    values, dtype, kind = packed
    return kind(values).to(dtype)


@scenario
def the_order_of_operands(lib, kit):
    seen = []
    x = lib.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    y = lib.tensor([[5.0, 6.0], [7.0, 8.0]], requires_grad=True)

    def note(place):
        def hook(t):
            seen.append((place, "xy"[[t.equal(each) for each in (x, y)].index(True)]))
            return t

        return hook

    products = (lib.mul, lib.div, lib.atan2, lib.mm, lib.matmul, lib.maximum)
    with hooked(lib, note("packed"), note("unpacked")):
        results = [product(x, y) for product in products]
    for each in results:
        each.sum().backward()
    return seen


@scenario
def when_hooks_run_and_in_which_mode(lib, kit):
    log, x = [], leaf(lib)

    def pack(t):
        log.append(("pack", t is x, t.requires_grad, lib.is_grad_enabled()))
        return t

    def unpack(t):
        log.append(("unpack", lib.is_grad_enabled()))
        return t

    with hooked(lib, pack, unpack):
        y = x * x
        (y * lib.ones(2)).detach()
        x + 1
    (y + y).sum().backward()
    return log[:2], log[-2:]


@scenario
def each_backward_unpacks(lib, kit):
    x, count = leaf(lib), []
    with hooked(lib, lambda t: t, lambda t: count.append(1) or t):
        y = (x * x).sum()
    y.backward(retain_graph=True)
    y.backward()
    return len(count), x.grad


@scenario
def a_freed_graph_unpacks_no_more(lib, kit):
    x = leaf(lib)
    with hooked(lib, lambda t: t, lambda t: t):
        y = (x * x).sum()
    y.backward()
    y.backward()


@scenario
def the_innermost_hooks_count(lib, kit):
    x, z = leaf(lib), leaf(lib)
    with hooked(lib, lambda t: t * 10, lambda t: t):
        with hooked(lib, lambda t: t * 100, lambda t: t):
            inner = x * x
        outer = z * z
    (inner + outer).sum().backward()
    return x.grad, z.grad


@scenario
def hooks_end_with_their_block(lib, kit):
    x = leaf(lib)
    try:
        with hooked(lib, lambda t: t * 10, lambda t: t):
            raise ValueError
    except ValueError:
        (x * x).sum().backward()
    return x.grad


@scenario
def a_gradient_of_a_gradient(lib, kit):
    x = leaf(lib)
    with hooked(lib, lambda t: t * 10, lambda t: t):
        y = x * x * x
    (first,) = lib.autograd.grad(y.sum(), x, create_graph=True)
    return first.detach(), lib.autograd.grad(first.sum(), x)


@scenario
def a_gradient_of_a_gradient_under_hooks(lib, kit):
    x = leaf(lib)
    with hooked(lib, lambda t: t.detach().numpy(), lambda a: lib.from_numpy(a.copy())):
        (first,) = lib.autograd.grad((x**3).sum(), x, create_graph=True)
        return first.detach(), lib.autograd.grad((first**2).sum(), x)


@scenario
def a_network_trained_from_host_memory(lib, kit):
    net = lib.nn.Sequential(lib.nn.Linear(2, 3), lib.nn.Tanh(), lib.nn.Linear(3, 1))
    with lib.no_grad():
        for place, each in enumerate(net.parameters()):
            each.fill_(0.1 * (place + 1))
    x = lib.tensor([[1.0, 2.0], [3.0, -1.0]])
    with hooked(lib, lambda t: t.detach().numpy(), lambda a: lib.from_numpy(a.copy())):
        loss = net(x).pow(2).sum()
    loss.backward()
    return [each.grad for each in net.parameters()]


@scenario
def save_on_cpu(lib, kit):
    x = leaf(lib)
    with lib.autograd.graph.save_on_cpu():
        y = (x * x).exp().sigmoid().sum()
    y.backward()
    return x.grad


def recorded_function(lib):
    class Square(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x * x
            ctx.save_for_backward(x, None, y)
            return y

        @staticmethod
        def backward(ctx, grad):
            x, nothing, y = ctx.saved_tensors
            return grad * 2 * x * y + (0 if nothing is None else 1)

    return Square.apply


@scenario
def what_a_function_saves(lib, kit):
    x, log = leaf(lib), []
    with hooked(lib, lambda t: log.append("pack") or t * 10, lambda t: log.append("unpack") or t):
        y = recorded_function(lib)(x)
    found = y.grad_fn.saved_tensors
    (first,) = lib.autograd.grad(y.sum(), x)
    return first, log, [None if each is None else each.requires_grad for each in found]


@scenario
def a_functions_gradient_of_a_gradient(lib, kit):
    x = leaf(lib)
    with hooked(lib, lambda t: t, lambda t: t):
        y = recorded_function(lib)(x)
    (first,) = lib.autograd.grad(y.sum(), x, create_graph=True)
    return first.detach(), lib.autograd.grad(first.sum(), x)


@scenario("hooks are off")
def hooks_that_are_disabled(lib, kit):
    with (
        lib.autograd.graph.disable_saved_tensors_hooks("hooks are off"),
        hooked(lib, lambda t: t, lambda t: t),
    ):
        pass


@scenario("hooks are off")
def hooks_that_are_disabled_too_late(lib, kit):
    disabled = lib.autograd.graph.disable_saved_tensors_hooks("hooks are off")
    with hooked(lib, lambda t: t, lambda t: t), disabled:
        pass


@scenario
def hooks_after_they_were_disabled(lib, kit):
    with lib.autograd.graph.disable_saved_tensors_hooks("hooks are off"):
        pass
    x = leaf(lib)
    with hooked(lib, lambda t: t * 2, lambda t: t):
        y = x * x
    y.sum().backward()
    return x.grad


@scenario
def saved_tensors_that_are_written(lib, kit):
    x = leaf(lib)
    with lib.autograd.graph.allow_mutation_on_saved_tensors() as copies:
        y = x.clone()
        z = (y * y).sum()
        y.mul_(10)
        z.backward()
        copies.clear()
    return x.grad, y.detach()


# What nodes show of it


@scenario
def attributes_of_nodes(lib, kit):
    x, w = leaf(lib), lib.tensor([3.0, 4.0], requires_grad=True)
    y = x * w
    z = y.exp()
    power, by_two = x**2, x * 2
    return (
        y.grad_fn._saved_self is x, y.grad_fn._saved_other is w, by_two.grad_fn._saved_self,
        z.grad_fn._saved_result is z, z.grad_fn._saved_result.detach(),
        z.grad_fn._saved_result.grad_fn is z.grad_fn, power.grad_fn._saved_exponent,
        power.grad_fn._saved_self is x, hasattr(y.grad_fn, "_saved_weight"),
        hasattr(lib.add(x, w).grad_fn, "_saved_self"),
    )  # fmt: skip


@scenario
def an_attribute_of_an_intermediate(lib, kit):
    y = leaf(lib) * 3
    saved = (y * y).grad_fn._saved_self
    return saved.grad_fn is y.grad_fn, saved.detach()


@scenario
def an_attribute_after_the_graph_was_freed(lib, kit):
    x = leaf(lib)
    y = x * x
    y.sum().backward()
    return y.grad_fn._saved_self


@scenario
def hooks_of_one_saved_tensor(lib, kit):
    x, w, seen = leaf(lib), leaf(lib), []
    y = x * w
    y.grad_fn._raw_saved_self.register_hooks(
        lambda t: seen.append(("pack", lib.is_grad_enabled())) or t * 10,
        lambda t: seen.append("unpack") or t,
    )
    y.sum().backward(retain_graph=True)
    (first,) = lib.autograd.grad(y.sum(), w, create_graph=True)
    y.sum().backward()
    return seen, x.grad, w.grad, first.detach()


@scenario
def hooks_of_one_saved_tensor_twice(lib, kit):
    x = leaf(lib)
    saved = (x * x).grad_fn._raw_saved_self
    saved.register_hooks(lambda t: t, lambda t: t)
    saved.register_hooks(lambda t: t, lambda t: t)


@scenario
def hooks_of_one_tensor_under_hooks_of_all(lib, kit):
    x = leaf(lib)
    with hooked(lib, lambda t: t, lambda t: t):
        y = x * x
    y.grad_fn._raw_saved_self.register_hooks(lambda t: t, lambda t: t)


@scenario
def hooks_of_one_saved_tensor_that_write(lib, kit):
    y = leaf(lib) * 1
    (y * y).grad_fn._raw_saved_self.register_hooks(lambda t: t.mul_(2), lambda t: t)


@scenario
def hooks_of_a_saved_result(lib, kit):
    x, seen = leaf(lib), []
    y = x.exp()
    node = y.grad_fn
    node._raw_saved_result.register_hooks(
        lambda t: seen.append((t.requires_grad, lib.is_grad_enabled())) or t * 10, lambda t: t + 1
    )
    saved = node._saved_result
    return seen, saved.detach(), saved.requires_grad, saved.grad_fn is node


def _result_of_a_root(lib):
    # PyTorch's raw form does not keep its node alive, so callers hold on to the root as well.
    y = leaf(lib).sqrt()
    return y, y.grad_fn._raw_saved_result


@scenario
def hooks_of_a_saved_result_twice(lib, kit):
    y, saved = _result_of_a_root(lib)
    saved.register_hooks(lambda t: t, lambda t: t)
    y.grad_fn._raw_saved_result.register_hooks(lambda t: t, lambda t: t)


@scenario
def hooks_of_a_saved_result_that_is_freed(lib, kit):
    y, saved = _result_of_a_root(lib)
    y.sum().backward()
    saved.register_hooks(lambda t: t, lambda t: t)


@scenario
def a_hooked_result_after_the_graph_was_freed(lib, kit):
    y, saved = _result_of_a_root(lib)
    saved.register_hooks(lambda t: t, lambda t: t)
    y.sum().backward()
    return y.grad_fn._saved_result


@scenario
def hooks_of_a_saved_result_that_write(lib, kit):
    _y, saved = _result_of_a_root(lib)
    saved.register_hooks(lambda t: t.mul_(2), lambda t: t)


@scenario
def hooks_of_a_saved_result_that_give_no_tensor(lib, kit):
    y, saved = _result_of_a_root(lib)
    saved.register_hooks(lambda t: t, lambda t: 5)
    return y.grad_fn._saved_result


@scenario
def hooks_of_a_saved_result_under_hooks_of_all(lib, kit):
    with hooked(lib, lambda t: t, lambda t: t):
        y = leaf(lib).exp()
    y.grad_fn._raw_saved_result.register_hooks(lambda t: t, lambda t: t)


@scenario
def hooks_of_a_saved_tensor_that_cannot_be_called(lib, kit):
    _y, saved = _result_of_a_root(lib)
    saved.register_hooks(1, lambda t: t)


@scenario
def hooks_of_a_saved_tensor_without_an_argument(lib, kit):
    _y, saved = _result_of_a_root(lib)
    saved.register_hooks(lambda: 1, lambda t: t)


@scenario
def hooks_of_a_tensor_that_is_not_saved(lib, kit):
    y = leaf(lib) * 2
    y.grad_fn._raw_saved_self.register_hooks(lambda t: t, lambda t: t)


@scenario
def hooks_of_what_a_function_saves(lib, kit):
    class Scaled(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x * 2
            ctx.save_for_backward(x, y, None)
            return y

        @staticmethod
        def backward(ctx, grad):
            x, y, _ = ctx.saved_tensors
            return grad * x * y

    x, seen = leaf(lib), []
    y = Scaled.apply(x)
    saved = y.grad_fn._raw_saved_tensors
    for each in saved[:2]:
        each.register_hooks(
            lambda t: seen.append(("pack", t.tolist())) or t * 10,
            lambda t: seen.append(("unpack", t.tolist())) or t,
        )
    y.sum().backward()
    return len(saved), len(y.grad_fn.needs_input_grad), seen, x.grad
