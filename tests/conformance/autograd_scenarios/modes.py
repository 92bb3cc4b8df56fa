"""Switching recording off and on: contexts, decorators, generators, threads, inference."""

import threading

from tests.conformance.scenario import Table

scenario = Table()


def state(lib):
    """What holds now."""
    return lib.is_grad_enabled(), lib.is_inference_mode_enabled()


@scenario
def contexts_nest(lib, kit):
    seen = [state(lib)]
    with lib.no_grad():
        seen.append(state(lib))
        with lib.enable_grad():
            seen.append(state(lib))
            with lib.set_grad_enabled(False):
                seen.append(state(lib))
            seen.append(state(lib))
        seen.append(state(lib))
    seen.append(state(lib))
    return seen


@scenario
def inference_contexts_nest(lib, kit):
    seen = []
    with lib.inference_mode():
        seen.append(state(lib))
        with lib.enable_grad():
            seen.append(state(lib))
        with lib.inference_mode(False):
            seen.append(state(lib))
            with lib.no_grad():
                seen.append(state(lib))
        with lib.no_grad(), lib.inference_mode(False):
            seen.append(state(lib))
        seen.append(state(lib))
    with lib.no_grad(), lib.inference_mode(False):
        seen.append(state(lib))
    return [*seen, state(lib)]


@scenario
def an_error_inside_a_context(lib, kit):
    for context in (lib.no_grad, lib.inference_mode):
        try:
            with context():
                raise KeyError
        except KeyError:
            pass
    return state(lib)


@scenario
def set_grad_enabled_as_a_switch(lib, kit):
    lib.set_grad_enabled(False)
    off = state(lib)
    lib.set_grad_enabled(True)
    return off, state(lib)


@scenario
def set_grad_enabled_made_before_its_block(lib, kit):
    context = lib.set_grad_enabled(False)
    seen = [state(lib)]
    with context:
        seen.append(state(lib))
    return [*seen, state(lib)]


@scenario
def decorated_functions(lib, kit):
    def probe():
        return state(lib)

    decorators = {
        "no_grad()": lib.no_grad(),
        "no_grad": lib.no_grad,
        "enable_grad()": lib.enable_grad(),
        "enable_grad": lib.enable_grad,
        "inference_mode()": lib.inference_mode(),
        "inference_mode": lib.inference_mode,
        "inference_mode(False)": lib.inference_mode(False),
        "set_grad_enabled(False)": lib.set_grad_enabled(False),
    }
    lib.set_grad_enabled(True)
    found = []
    for name, decorator in decorators.items():
        decorated = decorator(probe)
        found.append((name, decorated(), decorated.__name__, state(lib)))
    return found


@scenario
def a_decorated_method(lib, kit):
    class Probe:
        @lib.no_grad()
        def probe(self, a, *, b):
            return a, b, state(lib)

    return Probe().probe(1, b=2)


@scenario
def a_decorated_recursive_function(lib, kit):
    @lib.no_grad()
    def descend(depth):
        return [state(lib)] if depth == 0 else [*descend(depth - 1), state(lib)]

    return descend(3), state(lib)


@scenario
def a_decorated_generator(lib, kit):
    seen = []

    @lib.no_grad()
    def count():
        for i in range(2):
            seen.append(("in", state(lib)))
            got = yield i
            seen.append(("got", got, state(lib)))
        return "end"

    generator = count()
    seen.append((next(generator), state(lib)))
    seen.append((generator.send("a"), state(lib)))
    try:
        generator.send("b")
    except StopIteration as stop:
        seen.append((stop.value, state(lib)))
    return seen


@scenario
def a_decorated_generator_thrown_into_and_closed(lib, kit):
    seen = []

    @lib.no_grad()
    def patient():
        try:
            while True:
                try:
                    yield state(lib)
                except KeyError:
                    seen.append(("caught", state(lib)))
        finally:
            seen.append(("closed", state(lib)))

    generator = patient()
    next(generator)
    seen.append(generator.throw(KeyError()))
    generator.close()
    return [*seen, state(lib)]


@scenario
def threads_have_their_own_mode(lib, kit):
    seen = []
    with lib.no_grad():
        thread = threading.Thread(target=lambda: seen.append(state(lib)))
        thread.start()
        thread.join()
        seen.append(state(lib))
    return seen


@scenario
def what_is_recorded(lib, kit):
    x = lib.ones(2, requires_grad=True)
    found = [(x * 2).requires_grad]
    for context in (lib.no_grad, lib.inference_mode):
        with context():
            found.append((x * 2).requires_grad)
            with lib.enable_grad():
                found.append((x * 2).requires_grad)
            with lib.inference_mode(False):
                found.append((x * 2).requires_grad)
            found.append(lib.ones(2, requires_grad=True).requires_grad)
    return found


@scenario
def which_tensors_are_inference_tensors(lib, kit):
    x = lib.ones(2, requires_grad=True)
    with lib.inference_mode():
        made, computed, view, detached = lib.ones(2), x * 2, x[:1], x.detach()
        with lib.inference_mode(False):
            normal = lib.ones(2)
    tensors = (x, made, computed, view, detached, normal, made * 2, made.view(1, 2), made.clone())
    return [each.is_inference() for each in tensors]


@scenario
def inference_tensors_in_recorded_sums(lib, kit):
    x = lib.ones(2, requires_grad=True)
    with lib.inference_mode():
        made = lib.ones(2)
    (made + x).sum().backward()
    return x.grad


@scenario("nference", "saved for backward")
def inference_tensors_in_recorded_products(lib, kit):
    x = lib.ones(2, requires_grad=True)
    with lib.inference_mode():
        made = lib.ones(2)
    made * x


@scenario("nference")
def an_inference_tensor_that_shall_require_grad(lib, kit):
    with lib.inference_mode():
        made = lib.ones(2)
    made.requires_grad_()


@scenario("nference")
def an_inference_tensor_written_outside(lib, kit):
    with lib.inference_mode():
        made = lib.ones(2)
    made.add_(1)


@scenario
def an_inference_tensor_written_inside(lib, kit):
    with lib.inference_mode():
        made = lib.ones(2)
    with lib.inference_mode():
        made.add_(1)
    return made


@scenario
def a_leaf_written_in_inference_mode(lib, kit):
    x = lib.ones(2, requires_grad=True)
    with lib.inference_mode():
        x.add_(1)
    return x.detach(), x.requires_grad


@scenario
def a_clone_of_an_inference_tensor_is_normal(lib, kit):
    with lib.inference_mode():
        made = lib.ones(2)
    copy = made.clone().requires_grad_()
    (copy * copy).sum().backward()
    return copy.grad


@scenario
def an_inference_tensor_has_no_version(lib, kit):
    with lib.inference_mode():
        made = lib.ones(2)
    return made._version
