"""`utils.checkpoint`: how often functions run, how far, and what stops them."""

import contextlib

from tests.conformance.scenario import Table

scenario = Table()


def leaf(lib):
    return lib.tensor([1.0, 2.0, 3.0], requires_grad=True)


def checkpoint(lib, function, *args, **options):
    return lib.utils.checkpoint.checkpoint(function, *args, **{"use_reentrant": False, **options})


def steps(seen):
    """A function that notes how far it comes."""

    def run(x):
        seen.append("start")
        y = x.exp().sin()
        seen.append("saved")
        z = y + 1
        seen.append("end")
        return z

    return run


for early in (None, True, False):
    for local in (True, False):

        @scenario
        def stopping_early(lib, kit, early=early, local=local):
            seen, x = [], leaf(lib)
            context = (
                contextlib.nullcontext()
                if early is None
                else lib.utils.checkpoint.set_checkpoint_early_stop(early)
            )
            with context:
                y = checkpoint(lib, steps(seen), x, early_stop=local)
            y.sum().backward()
            return seen, x.grad

        scenario[-1] = scenario[-1]._replace(name=f"stopping_early_{early}_{local}")


@scenario
def each_backward_through_a_kept_graph(lib, kit):
    seen, x = [], leaf(lib)
    y = checkpoint(lib, steps(seen), x)
    y.sum().backward(retain_graph=True)
    y.sum().backward()
    return seen, x.grad


@scenario
def a_graph_that_was_freed(lib, kit):
    y = checkpoint(lib, steps([]), leaf(lib))
    y.sum().backward()
    y.sum().backward()


@scenario
def one_in_another(lib, kit):
    seen, x = [], leaf(lib)

    def inner(x):
        seen.append("inner")
        return x.exp().sin()

    def outer(x):
        seen.append("outer")
        return checkpoint(lib, inner, x.cos()) * 2

    checkpoint(lib, outer, x).sum().backward()
    return seen, x.grad


@scenario
def three_in_one_another(lib, kit):
    seen, x = [], leaf(lib)

    def part(depth, x):
        seen.append(depth)
        y = x.sin()
        return checkpoint(lib, part, depth - 1, y.exp()).cos() if depth else y

    checkpoint(lib, part, 2, x).sum().backward()
    return x.grad


@scenario
def an_error_when_it_runs_again(lib, kit):
    calls, x = [], leaf(lib)

    def fails_once(x):
        calls.append(1)
        if len(calls) == 2:
            raise KeyError("again")
        return x.exp().sin()

    y = checkpoint(lib, fails_once, x)
    try:
        y.sum().backward(retain_graph=True)
    except KeyError:
        calls.append("failed")
    y.sum().backward()
    return calls, x.grad


@scenario
def fewer_tensors_the_second_time(lib, kit):
    calls = []

    def changing(x):
        calls.append(1)
        return x.exp().sin() if len(calls) == 1 else x.exp()

    checkpoint(lib, changing, leaf(lib)).sum().backward()


@scenario
def another_dtype_the_second_time(lib, kit):
    calls = []

    def changing(x):
        calls.append(1)
        return (x if len(calls) == 1 else x.double()).exp().sin().float()

    checkpoint(lib, changing, leaf(lib)).sum().backward()


@scenario
def hooks_of_tensors_inside(lib, kit):
    seen, x = [], leaf(lib)

    def hooked(x):
        y = x.exp()
        y.register_hook(lambda grad: seen.append(grad.tolist()))
        return y.sin()

    checkpoint(lib, hooked, x).sum().backward()
    return seen


@scenario
def hooks_of_saved_tensors_around(lib, kit):
    x = leaf(lib)
    with lib.autograd.graph.saved_tensors_hooks(lambda t: t * 1, lambda t: t):
        y = checkpoint(lib, steps([]), x)
    y.sum().backward()
    return x.grad


@scenario
def nested_results(lib, kit):
    x = leaf(lib)
    found = checkpoint(lib, lambda x: {"a": x.exp(), "b": (x.sin(), 3)}, x)
    (found["a"] + found["b"][0]).sum().backward()
    return found["b"][1], x.grad


@scenario
def keyword_arguments(lib, kit):
    x, w = leaf(lib), leaf(lib)
    checkpoint(lib, lambda x, *, w, k: (x * w * k).exp(), x, w=w, k=0.5).sum().backward()
    return x.grad, w.grad


@scenario("determinism_check")
def an_unknown_check(lib, kit):
    checkpoint(lib, lambda x: x.exp(), leaf(lib), determinism_check="sometimes")


@scenario
def debugging_switched_on(lib, kit):
    x = leaf(lib)
    with lib.utils.checkpoint.set_checkpoint_debug_enabled(True):
        y = checkpoint(lib, lambda x: x * 2, x)
    y.sum().backward()
    return x.grad
