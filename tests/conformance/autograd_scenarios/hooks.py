"""Hooks on tensors, leaves and nodes: when they are called, what they see and change."""

from tests.conformance.scenario import Table

scenario = Table()


class Log(list):
    """What happened, in order."""

    def hook(self, label, factor=None):
        """A hook on a tensor that notes the gradient, and multiplies it."""

        def called(grad):
            self.append((label, None if grad is None else grad.tolist()))
            return None if factor is None else grad * factor

        return called

    def node_hook(self, label, result=None):
        """A hook after a node."""

        def called(inputs, outputs):
            self.append((label, self._values(inputs), self._values(outputs)))
            return result

        return called

    def node_prehook(self, label, result=None):
        """A hook before a node."""

        def called(outputs):
            self.append((label, self._values(outputs)))
            return result

        return called

    def _values(self, grads):
        return [None if each is None else each.tolist() for each in grads]


def leaf(lib, *values):
    """A leaf that requires grad."""
    return lib.tensor(values or (1.0, 2.0), requires_grad=True)


@scenario
def the_order_of_all_hooks_on_a_result(lib, kit):
    log, x = Log(), leaf(lib)
    y = x * 2
    y.retain_grad()
    y.grad_fn.register_hook(log.node_hook("after"))
    y.grad_fn.register_prehook(log.node_prehook("before"))
    y.register_hook(log.hook("tensor", 3))
    (y * y).sum().backward()
    return list(log), y.grad, x.grad


@scenario
def the_order_of_all_hooks_on_a_leaf(lib, kit):
    log, x = Log(), leaf(lib)
    y = x * 2
    accumulator = y.grad_fn.next_functions[0][0]
    accumulator.register_hook(log.node_hook("after"))
    accumulator.register_prehook(log.node_prehook("before"))
    x.register_post_accumulate_grad_hook(lambda t: log.append(("accumulated", t.grad.tolist())))
    x.register_hook(log.hook("tensor", 3))
    y.sum().backward()
    return list(log), x.grad


@scenario
def a_node_prehook_changes_what_the_node_gets_but_not_what_is_retained(lib, kit):
    x = leaf(lib)
    y = x * 2
    y.retain_grad()
    y.grad_fn.register_prehook(lambda grads: (grads[0] * 5,))
    y.sum().backward()
    return y.grad, x.grad


@scenario
def a_node_hook_changes_what_flows_on(lib, kit):
    x, w = leaf(lib), leaf(lib, 3.0, 4.0)
    y = x * w
    y.grad_fn.register_hook(lambda inputs, outputs: (inputs[0] * 10, None))
    y.sum().backward()
    return x.grad, w.grad


@scenario
def the_order_of_siblings(lib, kit):
    log, a, b = Log(), leaf(lib), leaf(lib, 3.0, 4.0)
    a.register_hook(log.hook("a"))
    b.register_hook(log.hook("b"))
    p, q = a * 2, b * 3
    p.register_hook(log.hook("p"))
    q.register_hook(log.hook("q"))
    r = p * q
    r.register_hook(log.hook("r"))
    r.sum().backward()
    return list(log)


@scenario
def a_hook_on_a_leaf_is_called_once_with_the_whole_gradient(lib, kit):
    log, x = Log(), leaf(lib)
    x.register_hook(log.hook("x"))
    (x * 2 + x * x).sum().backward()
    return list(log)


@scenario
def several_hooks_each_see_the_result_of_the_one_before(lib, kit):
    log, x = Log(), leaf(lib)
    for label, factor in (("first", 2), ("second", None), ("third", 5)):
        x.register_hook(log.hook(label, factor))
    (x * 1).sum().backward()
    return list(log), x.grad


@scenario
def a_hook_removed(lib, kit):
    log, x = Log(), leaf(lib)
    handle = x.register_hook(log.hook("gone"))
    x.register_hook(log.hook("stays"))
    handle.remove()
    handle.remove()
    (x * 2).sum().backward()
    return list(log)


@scenario
def a_handle_as_context_manager(lib, kit):
    log, x = Log(), leaf(lib)
    with x.register_hook(log.hook("inside")):
        (x * 2).sum().backward()
    (x * 2).sum().backward()
    return list(log)


@scenario
def a_hook_that_removes_the_next_one(lib, kit):
    log, x = Log(), leaf(lib)
    x.register_hook(lambda grad: (log.append("first"), second.remove())[1])
    second = x.register_hook(lambda grad: log.append("second"))
    x.register_hook(lambda grad: log.append("third"))
    (x * 2).sum().backward()
    (x * 2).sum().backward()
    return list(log)


@scenario
def a_hook_that_removes_itself(lib, kit):
    log, x = Log(), leaf(lib)
    handle = x.register_hook(lambda grad: (log.append("once"), handle.remove())[1])
    (x * 2).sum().backward()
    (x * 2).sum().backward()
    return list(log)


@scenario
def a_hook_registered_by_a_hook(lib, kit):
    log, x = Log(), leaf(lib)

    def register(grad):
        x.register_hook(lambda grad: log.append("new"))
        log.append("old")

    x.register_hook(register)
    (x * 2).sum().backward()
    first = list(log)
    (x * 2).sum().backward()
    return first, list(log)


@scenario
def a_node_hook_that_removes_the_next_one(lib, kit):
    log, y = Log(), leaf(lib) * 2
    y.grad_fn.register_hook(lambda *grads: (log.append("first"), second.remove())[1])
    second = y.grad_fn.register_hook(lambda *grads: log.append("second"))
    y.sum().backward()
    return list(log)


def returning(result):
    """A scenario whose tensor hook returns something."""

    def run(lib, kit):
        x = leaf(lib)
        x.register_hook(lambda grad: result(lib))
        (x * 2).sum().backward()
        return x.grad

    return run


for name, result in {
    "a_number": lambda lib: 1.0,
    "a_tuple": lambda lib: (lib.ones(2),),
    "another_shape": lambda lib: lib.ones(3),
    "a_shape_that_broadcasts": lambda lib: lib.ones(1),
    "another_dtype": lambda lib: lib.ones(2, dtype=lib.float64),
    "integers": lambda lib: lib.tensor([1, 2]),
    "a_good_tensor": lambda lib: lib.tensor([7.0, 8.0]),
}.items():
    run = returning(result)
    run.__name__ = f"a_tensor_hook_that_returns_{name}"
    scenario(run)


def node_returning(result, before):
    """A scenario whose node hook returns something."""

    def run(lib, kit):
        x = leaf(lib)
        y = x * 2
        if before:
            y.grad_fn.register_prehook(lambda grads: result(lib))
        else:
            y.grad_fn.register_hook(lambda inputs, outputs: result(lib))
        y.sum().backward()
        return x.grad

    return run


for name, result in {
    "a_number": lambda lib: 1.0,
    "a_tensor": lambda lib: lib.ones(2),
    "nothing_at_all": lambda lib: (),
    "one": lambda lib: (lib.tensor([7.0, 8.0]),),
    "one_and_none": lambda lib: (lib.tensor([7.0, 8.0]), None),
    "none_and_none": lambda lib: (None, None),
    "two": lambda lib: (lib.ones(2), lib.ones(2)),
    "another_shape": lambda lib: (lib.ones(3), None),
    "another_dtype": lambda lib: (lib.ones(2, dtype=lib.float64), None),
}.items():
    for before in (False, True):
        run = node_returning(result, before)
        run.__name__ = f"a_node_{'pre' if before else ''}hook_that_returns_{name}"
        scenario(run)


@scenario
def a_hook_that_changes_the_gradient_in_place(lib, kit):
    x = leaf(lib)
    y = x * 2
    y.register_hook(lambda grad: grad.mul_(3))
    (y + y).sum().backward()
    return x.grad


@scenario
def a_hook_that_raises(lib, kit):
    x = leaf(lib)

    def fail(grad):
        raise KeyError("mine")

    x.register_hook(fail)
    (x * 2).sum().backward()


@scenario
def hooks_run_without_recording(lib, kit):
    log, x = Log(), leaf(lib)
    x.register_hook(lambda grad: log.append((lib.is_grad_enabled(), grad.requires_grad)))
    (x * x).sum().backward()
    (x * x).sum().backward(create_graph=True)
    return list(log)


@scenario
def a_hook_under_create_graph_is_differentiated(lib, kit):
    x = leaf(lib)
    y = x * x
    y.register_hook(lambda grad: grad * grad)
    (first,) = lib.autograd.grad((y * y).sum(), x, create_graph=True)
    return first.detach(), lib.autograd.grad(first.sum(), x)


@scenario
def a_backward_inside_a_hook(lib, kit):
    x, w = leaf(lib), leaf(lib, 3.0, 4.0)

    def inner(grad):
        with lib.enable_grad():
            (w * 5).sum().backward()

    x.register_hook(inner)
    (x * 2).sum().backward()
    return x.grad, w.grad


@scenario
def grad_calls_the_hooks_of_its_inputs_and_of_what_is_between(lib, kit):
    log, x = Log(), leaf(lib)
    y = x * 2
    x.register_hook(log.hook("x", 10))
    y.register_hook(log.hook("y", 3))
    x.register_post_accumulate_grad_hook(lambda t: log.append("accumulated"))
    accumulator = y.grad_fn.next_functions[0][0]
    accumulator.register_prehook(log.node_prehook("before"))
    accumulator.register_hook(log.node_hook("after"))
    return lib.autograd.grad((y * y).sum(), x), list(log)


@scenario
def grad_by_a_result_calls_its_hooks_only(lib, kit):
    log, x = Log(), leaf(lib)
    y = x * 2
    y.register_hook(log.hook("y", 3))
    y.grad_fn.register_prehook(log.node_prehook("before"))
    y.grad_fn.register_hook(log.node_hook("after"))
    x.register_hook(log.hook("x"))
    return lib.autograd.grad((y * y).sum(), y), list(log)


@scenario
def grad_by_a_result_and_by_what_it_is_made_from(lib, kit):
    log, x = Log(), leaf(lib)
    y = x * 2
    y.register_hook(log.hook("y", 3))
    y.grad_fn.register_prehook(log.node_prehook("before"))
    return lib.autograd.grad((y * y).sum(), [y, x]), list(log)


@scenario
def hooks_on_nodes_that_are_not_needed_are_not_called(lib, kit):
    log, x, w = Log(), leaf(lib), leaf(lib, 3.0, 4.0)
    y, z = x * 2, w * 2
    z.register_hook(log.hook("z"))
    w.register_hook(log.hook("w"))
    y.register_hook(log.hook("y"))
    return lib.autograd.grad((y * z).sum(), x), list(log)


@scenario
def backward_into_a_result_runs_its_node(lib, kit):
    log, x = Log(), leaf(lib)
    y = x * 2
    y.grad_fn.register_hook(log.node_hook("after"))
    x.register_hook(log.hook("x"))
    (y * y).sum().backward(inputs=[y])
    return list(log), y.grad, x.grad


@scenario
def retain_grad(lib, kit):
    x = leaf(lib)
    y = x * 2
    y.retain_grad()
    before = y.retains_grad
    z = (y * y).sum()
    z.backward(retain_graph=True)
    first = y.grad
    z.backward()
    return before, first, y.grad, y.grad is first


@scenario
def retain_grad_of_a_leaf(lib, kit):
    x = leaf(lib)
    return x.retain_grad(), x.retains_grad


@scenario
def retain_grad_of_what_requires_no_grad(lib, kit):
    lib.ones(2).retain_grad()


@scenario
def retained_gradients_follow_an_in_place_write(lib, kit):
    log, x = Log(), leaf(lib)
    y = x * 2
    y.retain_grad()
    y.register_hook(log.hook("before the write"))
    y.mul_(3)
    y.register_hook(log.hook("after the write"))
    y.sum().backward()
    return list(log), y.grad, y.retains_grad, x.grad


@scenario
def a_retained_view_follows_its_base(lib, kit):
    x = leaf(lib)
    y = x * 2
    y.retain_grad()
    part = y[:1]
    part.retain_grad()
    y.mul_(3)
    (y.sum() + part.sum()).backward()
    return y.grad, part.grad, x.grad


@scenario
def a_retained_result_that_is_gone(lib, kit):
    x = leaf(lib)
    y = x * 2
    y.retain_grad()
    z = (y * y).sum()
    del y
    z.backward()
    return x.grad


@scenario
def post_accumulate_hooks(lib, kit):
    log, x = Log(), leaf(lib)
    x.register_post_accumulate_grad_hook(lambda t: log.append((t is x, t.grad.tolist())))
    (x * 2).sum().backward()
    (x * 2).sum().backward()
    return list(log)


@scenario
def a_post_accumulate_hook_may_take_the_gradient_away(lib, kit):
    x = leaf(lib)
    x.register_post_accumulate_grad_hook(lambda t: setattr(t, "grad", None))
    (x * 2).sum().backward()
    return x.grad


@scenario
def a_post_accumulate_hook_that_returns_something(lib, kit):
    x = leaf(lib)
    x.register_post_accumulate_grad_hook(lambda t: 3)
    (x * 2).sum().backward()


@scenario
def a_post_accumulate_hook_that_returns_its_tensor(lib, kit):
    x = leaf(lib)
    x.register_post_accumulate_grad_hook(lambda t: t.sub_(t.grad, alpha=0.5))
    (x * 2).sum().backward()
    return x


@scenario
def a_post_accumulate_hook_that_returns_another_tensor(lib, kit):
    x = leaf(lib)
    x.register_post_accumulate_grad_hook(lambda t: t.detach())
    (x * 2).sum().backward()


@scenario
def a_post_accumulate_hook_on_a_result(lib, kit):
    (leaf(lib) * 2).register_post_accumulate_grad_hook(print)


@scenario
def a_hook_on_what_requires_no_grad(lib, kit):
    lib.ones(2).register_hook(print)


@scenario
def hooks_of_one_output_of_several(lib, kit):
    log, x = Log(), lib.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    first, second = x.unbind(0)
    first.register_hook(log.hook("first", 10))
    second.register_hook(log.hook("second"))
    first.grad_fn.register_hook(log.node_hook("after"))
    (first * 2 + second).sum().backward()
    return list(log), x.grad


@scenario
def hooks_where_one_output_gets_no_gradient(lib, kit):
    log, x = Log(), lib.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    first, second = x.unbind(0)
    second.register_hook(log.hook("second"))
    first.grad_fn.register_prehook(log.node_prehook("before"))
    (first * 2).sum().backward()
    return list(log), x.grad


@scenario
def hooks_where_no_gradient_arrives(lib, kit):
    log, x = Log(), leaf(lib)

    class Stop(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            return None

    y = x.exp()
    y.retain_grad()
    y.register_hook(log.hook("y"))
    x.register_hook(log.hook("x"))
    y.grad_fn.register_prehook(log.node_prehook("before"))
    y.grad_fn.register_hook(log.node_hook("after"))
    x.register_post_accumulate_grad_hook(lambda t: log.append("accumulated"))
    Stop.apply(y).sum().backward()
    return list(log), x.grad, y.grad


@scenario
def hooks_on_several_tensors(lib, kit):
    log = Log()
    a, b, c = leaf(lib), leaf(lib, 3.0, 4.0), leaf(lib)
    handle = lib.autograd.graph.register_multi_grad_hook(
        (a, b, c), lambda grads: log.append([None if g is None else g.tolist() for g in grads])
    )
    (a * 2 + b * 3 * a).sum().backward()
    (a * b * c).sum().backward()
    y = (a * b).sum()
    y.backward(retain_graph=True)
    y.backward(inputs=[a])
    handle.remove()
    (a * b).sum().backward()
    return list(log)


@scenario
def hooks_on_the_first_of_several_tensors(lib, kit):
    log, a, b = Log(), leaf(lib), leaf(lib, 3.0, 4.0)
    lib.autograd.graph.register_multi_grad_hook(
        (a, b), lambda grad: log.append(grad.tolist()), mode="any"
    )
    y = (a * 2).sum() + (b * 3).sum()
    y.backward(retain_graph=True)
    y.backward()
    return list(log)


@scenario("all", "any")
def hooks_on_several_tensors_in_an_unknown_mode(lib, kit):
    lib.autograd.graph.register_multi_grad_hook((leaf(lib),), print, mode="some")
