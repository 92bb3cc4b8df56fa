"""Backward in bad company: hooks that raise, enter modes, remove themselves or run backward."""

import threading

from tests.conformance.scenario import Table

scenario = Table()


def leaf(lib):
    return lib.tensor([1.0, 2.0, 3.0], requires_grad=True)


def counting(lib):
    """How often saved tensors are packed and unpacked, and hooks that count it."""
    counts = [0, 0]

    def count(place):
        def hook(each):
            counts[place] += 1
            return each

        return hook

    return counts, lib.autograd.graph.saved_tensors_hooks(count(0), count(1))


def failing(function, *args, **options):
    """The type of the error that a call raises, if it does."""
    try:
        function(*args, **options)
    except Exception as error:  # noqa: BLE001 - whatever is raised is what happened
        return type(error).__name__
    return None


# Modes that are entered in backward and not left


@scenario
def hooks_of_saved_tensors_entered_in_a_hook(lib, kit):
    x = leaf(lib)
    counts, block = counting(lib)
    y = x.exp()
    y.register_hook(lambda grad: block.__enter__())
    y.sum().backward()
    (x.exp() * x).sum().backward()
    return counts


@scenario
def hooks_of_saved_tensors_entered_in_a_function(lib, kit):
    counts, block = counting(lib)

    class Entering(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            block.__enter__()
            return grad

    x = leaf(lib)
    Entering.apply(x * 1).sum().backward()
    (x.exp() * x).sum().backward()
    return counts


@scenario
def hooks_of_saved_tensors_entered_after_accumulation(lib, kit):
    x, w = leaf(lib), leaf(lib)
    counts, block = counting(lib)
    x.register_post_accumulate_grad_hook(lambda each: block.__enter__() and None)
    (x * w).sum().backward()
    w.exp().sum().backward()
    return counts


@scenario
def modes_set_in_a_hook(lib, kit):
    x, seen = leaf(lib), []

    def switch(grad):
        lib.set_grad_enabled(True)
        lib.set_autocast_enabled("cpu", True)

    y = x * x
    y.register_hook(switch)
    y.register_hook(lambda grad: seen.append(lib.is_grad_enabled()))
    x.register_hook(lambda grad: seen.append(lib.is_grad_enabled()))
    y.sum().backward()
    return seen, lib.is_grad_enabled(), lib.is_autocast_enabled("cpu")


@scenario
def recording_switched_off_in_a_hook(lib, kit):
    x = leaf(lib)
    y = x * x
    y.register_hook(lambda grad: lib.set_grad_enabled(False) and None)
    y.sum().backward()
    return lib.is_grad_enabled()


# Exceptions in the middle


@scenario
def a_hook_that_raises(lib, kit):
    x, w = leaf(lib), leaf(lib)
    y = x * x
    handle = y.register_hook(lambda grad: 1 / 0)
    z = (y * w).sum()
    found = [failing(z.backward, retain_graph=True), failing(z.backward, retain_graph=True)]
    handle.remove()
    z.backward()
    return found, x.grad


@scenario
def a_hook_that_raises_while_the_graph_is_freed(lib, kit):
    x = leaf(lib)
    y = x * x
    handle = y.register_hook(lambda grad: 1 / 0)
    z = y.exp().sum()
    found = [failing(z.backward)]
    handle.remove()
    return [*found, failing(z.backward)], x.grad


@scenario
def a_function_that_raises_once(lib, kit):
    fails = [True]

    class Failing(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            if fails:
                raise KeyError(fails.pop())
            return grad

    x, w = leaf(lib), leaf(lib)
    z = (Failing.apply(x.exp()) * w).sum()
    raised = failing(z.backward, retain_graph=True)
    # flambeau takes back the gradients of a backward that fails.
    x.grad = w.grad = None
    z.backward()
    return raised, x.grad, w.grad


@scenario
def an_unpack_hook_that_raises_once(lib, kit):
    fails = [True]

    def unpack(each):
        if fails:
            raise KeyError(fails.pop())
        return each

    x = leaf(lib)
    with lib.autograd.graph.saved_tensors_hooks(lambda each: each, unpack):
        y = x.exp()
    return failing(y.sum().backward), failing(y.sum().backward), x.grad


@scenario
def a_group_hook_that_raises(lib, kit):
    x, w, calls = leaf(lib), leaf(lib), []

    def hook(grads):
        calls.append(1)
        if len(calls) == 1:
            raise KeyError

    y = (x * w).sum()
    lib.autograd.graph.register_multi_grad_hook((x, w), hook)
    found = [failing(y.backward, retain_graph=True) for _ in range(2)]
    return found, calls


# Backward in hooks


@scenario
def backward_of_another_graph_in_a_hook(lib, kit):
    x, w, seen = leaf(lib), leaf(lib), []
    y = x * x

    def hook(grad):
        with lib.enable_grad():
            (w * 2).sum().backward()
        seen.append(w.grad.tolist())
        return grad * 2

    y.register_hook(hook)
    y.sum().backward()
    return seen, x.grad


@scenario
def backward_of_the_same_leaf_in_a_hook(lib, kit):
    x = leaf(lib)
    y = x * x

    def hook(grad):
        with lib.enable_grad():
            (x * 3).sum().backward()

    y.register_hook(hook)
    y.sum().backward()
    return x.grad


@scenario
def backward_of_the_same_graph_in_a_hook(lib, kit):
    x, calls = leaf(lib), []
    y = x * x
    z = y.sum()

    def hook(grad):
        calls.append(1)
        if len(calls) < 3:
            z.backward(retain_graph=True)

    y.register_hook(hook)
    z.backward(retain_graph=True)
    return x.grad, calls


@scenario
def backward_in_a_functions_backward(lib, kit):
    class Inner(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            with lib.enable_grad():
                ctx.x = x.detach().requires_grad_()
                ctx.y = (ctx.x**3).sum()
            return ctx.y.detach()

        @staticmethod
        def backward(ctx, grad):
            ctx.y.backward()
            return ctx.x.grad * grad

    x = leaf(lib)
    Inner.apply(x).backward()
    return x.grad


# Hooks that change hooks, or the graph


@scenario
def a_hook_that_removes_itself(lib, kit):
    x, seen = leaf(lib), []
    y = x * x

    def once(grad):
        seen.append("once")
        handle.remove()

    handle = y.register_hook(once)
    y.register_hook(lambda grad: seen.append("always"))
    y.sum().backward(retain_graph=True)
    y.sum().backward()
    return seen


@scenario
def a_hook_that_removes_the_next(lib, kit):
    x, seen = leaf(lib), []
    y = x * x
    y.register_hook(lambda grad: seen.append("first") or handle.remove())
    handle = y.register_hook(lambda grad: seen.append("second"))
    y.sum().backward(retain_graph=True)
    y.sum().backward()
    return seen


@scenario
def hooks_that_add_hooks(lib, kit):
    x, seen = leaf(lib), []
    y = x * x

    def adding(grad):
        seen.append("adding")
        y.register_hook(lambda grad: seen.append("added"))

    def adding_after(inputs, outputs):
        seen.append("after")
        y.grad_fn.register_hook(lambda inputs, outputs: seen.append("added after"))

    y.register_hook(adding)
    y.grad_fn.register_hook(adding_after)
    y.sum().backward(retain_graph=True)
    seen.append("again")
    y.sum().backward()
    return seen


@scenario
def a_tensor_detached_in_a_hook(lib, kit):
    x = leaf(lib)
    y = x**3
    y.register_hook(lambda grad: (grad * 2).detach_())
    (gradient,) = lib.autograd.grad(y.sum(), x, create_graph=True)
    return gradient.detach(), gradient.requires_grad


@scenario
def hooks_of_every_kind_in_order(lib, kit):
    x, seen = leaf(lib), []
    y = x * x
    y.register_hook(lambda grad: seen.append("tensor"))
    y.grad_fn.register_prehook(lambda grads: seen.append("before"))
    y.register_hook(lambda grad: seen.append("tensor again"))
    y.grad_fn.register_hook(lambda inputs, outputs: seen.append("after"))
    x.register_post_accumulate_grad_hook(lambda each: seen.append("accumulated"))
    x.register_hook(lambda grad: seen.append("leaf"))
    accumulator = y.grad_fn.next_functions[0][0]
    accumulator.register_prehook(lambda grads: seen.append("before accumulation"))
    accumulator.register_hook(lambda inputs, outputs: seen.append((len(inputs), len(outputs))))
    y.sum().backward()
    return seen


# Graphs kept and freed, and threads


@scenario
def two_losses_that_share_a_part(lib, kit):
    x = leaf(lib)
    y = x.exp()
    first, second = y.sin().sum(), y.cos().sum()
    first.backward(retain_graph=True)
    second.backward()
    return failing(first.backward), x.grad


@scenario
def the_part_behind_a_freed_one(lib, kit):
    x = leaf(lib)
    y = x.exp()
    lib.autograd.grad((y * y).sum(), y)
    return lib.autograd.grad(y.sum(), x)


@scenario
def threads_on_one_graph(lib, kit):
    x, calls, failures = leaf(lib), [], []
    y = x.exp()
    y.register_hook(lambda grad: calls.append(1))

    def run():
        try:
            for _ in range(10):
                (y * 2).sum().backward(retain_graph=True)
        except Exception as error:  # noqa: BLE001 - whatever is raised is what happened
            failures.append(error)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    return len(failures), len(calls)


# Callbacks at the end of backward


@scenario
def a_callback_at_the_end(lib, kit):
    x, seen = leaf(lib), []
    engine = lib.autograd.Variable._execution_engine
    y = x * x

    def queue(grad):
        engine.queue_callback(lambda: seen.append((x.grad.tolist(), lib.is_grad_enabled())))
        engine.queue_callback(lambda: engine.queue_callback(lambda: seen.append("last")))

    y.register_hook(queue)
    y.sum().backward()
    return seen


@scenario
def callbacks_of_a_backward_in_a_hook(lib, kit):
    x, w, seen = leaf(lib), leaf(lib), []
    engine = lib.autograd.Variable._execution_engine
    y = x * x

    def hook(grad):
        engine.queue_callback(lambda: seen.append("outer"))
        with lib.enable_grad():
            z = w * 2
            z.register_hook(lambda grad: engine.queue_callback(lambda: seen.append("inner")))
            z.sum().backward()
        seen.append("between")

    y.register_hook(hook)
    y.sum().backward()
    return seen


@scenario
def callbacks_and_errors(lib, kit):
    x, seen = leaf(lib), []
    engine = lib.autograd.Variable._execution_engine

    def run(*hooks):
        y = x * x
        for hook in hooks:
            y.register_hook(hook)
        return failing(y.sum().backward)

    def then(action):
        return lambda grad: engine.queue_callback(action)

    return (
        run(then(lambda: 1 / 0), then(lambda: seen.append("not called"))),
        run(then(lambda: seen.append("not called either")), lambda grad: 1 / 0),
        run(),
        seen,
    )


@scenario("callbacks can only be installed during backward")
def a_callback_without_backward(lib, kit):
    lib.autograd.Variable._execution_engine.queue_callback(print)


@scenario
def multithreading_as_a_mode(lib, kit):
    seen = [lib.autograd.is_multithreading_enabled()]
    with lib.autograd.set_multithreading_enabled(False):
        seen.append(lib.autograd.is_multithreading_enabled())
    seen.append(lib.autograd.is_multithreading_enabled())
    lib.autograd.set_multithreading_enabled(False)
    seen.append(lib.autograd.is_multithreading_enabled())
    lib.autograd.set_multithreading_enabled(True)
    return seen


# How often tensors are packed and unpacked

COUNTED = {
    "relu": lambda lib, x: x.relu(),
    "exp": lambda lib, x: x.exp(),
    "mul": lambda lib, x: x * x,
    "mul_by_a_number": lambda lib, x: x * 2,
    "mul_by_a_constant": lambda lib, x: x * lib.ones(3),
    "add": lambda lib, x: x + x,
    "div": lambda lib, x: x / x,
    "pow": lambda lib, x: x**3,
    "sum": lambda lib, x: x.sum(),
    "mean": lambda lib, x: x.mean(),
    "mm": lambda lib, x: x @ x,
    "bmm": lambda lib, x: x[None] @ x[None],
    "addmm": lambda lib, x: lib.addmm(x, x, x),
    "linear": lambda lib, x: lib.nn.functional.linear(x, x, x[0]),
    "conv": lambda lib, x: lib.nn.functional.conv1d(x[None], x[None, :, :2]),
    "softmax": lambda lib, x: x.softmax(0),
    "gelu": lambda lib, x: lib.nn.functional.gelu(x),
    "sigmoid": lambda lib, x: x.sigmoid(),
    "view": lambda lib, x: x.t().reshape(9)[2:],
    "cat": lambda lib, x: lib.cat([x, x]),
    "embedding": lambda lib, x: lib.nn.functional.embedding(lib.tensor([0, 2]), x),
    "mse": lambda lib, x: lib.nn.functional.mse_loss(x, x * 2),
    "where": lambda lib, x: lib.where(x > 0, x, x),
    "minimum": lambda lib, x: lib.minimum(x, x * 2),
    "cumsum": lambda lib, x: x.cumsum(0),
    "clone": lambda lib, x: x.clone(),
    "frozen": lambda lib, x: lib.nn.functional.linear(lib.ones(1, 3), x, x[0]),
}

for name, function in COUNTED.items():

    @scenario
    def counted(lib, kit, function=function):
        x = (lib.arange(9.0).reshape(3, 3) + 1).requires_grad_()
        counts, block = counting(lib)
        with block:
            y = function(lib, x)
        y.sum().backward()
        return counts, x.grad

    scenario[-1] = scenario[-1]._replace(name=f"packed_by_{name}")
