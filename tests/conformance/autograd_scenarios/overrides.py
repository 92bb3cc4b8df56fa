"""The ``__torch_function__`` protocol: subclasses and other types that override functions."""

from tests.conformance.scenario import Table

scenario = Table()


def tracing(lib, log, result=None):
    """A subclass that notes each function it is asked about."""

    class Traced(lib.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            log.append((func.__name__, [each.__name__ for each in types], sorted(kwargs or {})))
            if result is not None:
                return result
            return super().__torch_function__(func, types, args, kwargs)

    return Traced


def plain_subclass(lib):
    """A subclass that overrides nothing."""

    class Sub(lib.Tensor):
        pass

    return Sub


def as_sub(cls, lib, *values):
    return lib.tensor(values or (1.0, 2.0)).as_subclass(cls)


@scenario
def results_are_of_the_subclass(lib, kit):
    x = as_sub(plain_subclass(lib), lib)
    results = (x + 1, 1 + x, lib.exp(x), x.sum(), x[0], x * lib.ones(2), lib.ones(2) * x, -x)
    return [type(each).__name__ for each in results], (x + 1).tolist()


@scenario
def several_results_are_of_the_subclass(lib, kit):
    x = as_sub(plain_subclass(lib), lib)
    return [type(each).__name__ for each in x.unbind(0)], type(x.max(0).values).__name__


@scenario
def written_in_place_it_stays_itself(lib, kit):
    x = as_sub(plain_subclass(lib), lib)
    return x.add_(1) is x, x.tolist()


@scenario
def gradients_flow_through_a_subclass(lib, kit):
    x = lib.tensor([1.0, 2.0], requires_grad=True)
    y = x.as_subclass(plain_subclass(lib)) * 3
    y.sum().backward()
    return x.grad.tolist(), type(y).__name__, y.requires_grad


@scenario
def which_function_is_asked(lib, kit):
    log = []
    x = as_sub(tracing(lib, log), lib)
    lib.add(x, 1)
    lib.exp(x)
    x.exp()
    lib.where(x > 0, x, lib.zeros(2))
    lib.stack([lib.zeros(2), x])
    lib.nn.functional.relu(x)
    return [name for name, _, _ in log if not name.startswith("__get")]


@scenario
def keywords_are_passed_on(lib, kit):
    log = []
    x = as_sub(tracing(lib, log), lib)
    lib.sum(x, dim=0, keepdim=True)
    return log[-1]


@scenario
def an_override_may_give_anything(lib, kit):
    x = as_sub(tracing(lib, [], result="anything"), lib)
    return lib.exp(x), x + 1, lib.cat([x, x]), lib.ones(2) + x


@scenario
def any_type_may_override(lib, kit):
    class Number:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return func.__name__, [each.__name__ for each in types]

    return lib.add(Number(), 1), lib.add(lib.ones(2), Number()), lib.exp(Number())


@scenario
def a_subclass_is_asked_before_its_base(lib, kit):
    log = []
    base = tracing(lib, log)

    class Derived(base):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return "derived", [each.__name__ for each in types]

    x, y = as_sub(base, lib), as_sub(Derived, lib)
    return lib.add(x, y), lib.add(y, x), log


@scenario
def unrelated_types_are_asked_from_left_to_right(lib, kit):
    def overriding(name, answer):
        method = classmethod(lambda cls, *args: answer)
        return type(name, (), {"__torch_function__": method})

    first, second = overriding("First", "first"), overriding("Second", "second")
    unwilling = overriding("Unwilling", NotImplemented)
    return (
        lib.add(first(), second()),
        lib.add(second(), first()),
        lib.add(unwilling(), second()),
    )


@scenario("Unwilling")
def nobody_knows(lib, kit):
    class Unwilling:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return NotImplemented

    lib.exp(Unwilling())


@scenario
def a_parameter_overrides_nothing(lib, kit):
    parameter = lib.nn.Parameter(lib.ones(2))
    return type(parameter * 2).__name__, type(parameter.detach()).__name__


@scenario
def a_function_of_ones_own(lib, kit):
    overrides = lib.overrides

    def double(x):
        if overrides.has_torch_function_unary(x):
            return overrides.handle_torch_function(double, (x,), x)
        return x * 2

    log = []
    x = as_sub(tracing(lib, log, result="overridden"), lib)
    return double(3), double(lib.ones(2)), double(x), log


@scenario
def a_function_of_ones_own_by_decorator(lib, kit):
    @lib.overrides.wrap_torch_function(lambda x, y: (x, y))
    def add(x, y):
        return x + y

    x = as_sub(tracing(lib, [], result="overridden"), lib)
    return add(1, 2), add(1, x), add(x, y=2)


@scenario
def what_is_like_a_tensor(lib, kit):
    class Like:
        __torch_function__ = classmethod(lambda cls, *args: None)

    values = (lib.ones(1), lib.nn.Parameter(lib.ones(1)), Like(), 3, Like)
    has = lib.overrides.has_torch_function
    return [lib.overrides.is_tensor_like(each) for each in values[:4]], [
        has((each,)) for each in values[:4]
    ]


@scenario
def methods_that_are_no_operators_ask_too(lib, kit):
    log = []
    x = as_sub(tracing(lib, log), lib)
    x.requires_grad_(False)
    x.detach()
    x.dim(), x.size(), x.numel(), x.stride(), x.element_size()
    x.tolist(), x.sum().item(), x.numpy(), len(x), x.is_floating_point()
    return [name for name, _, _ in log]


@scenario
def an_override_of_detach_is_seen_by_parameter(lib, kit):
    log = []
    parameter = lib.nn.Parameter(as_sub(tracing(lib, log), lib))
    return [name for name, _, _ in log if not name.startswith("__")], type(parameter).__name__


@scenario
def methods_of_other_types_are_answered_as_they_like(lib, kit):
    x = as_sub(tracing(lib, [], result="anything"), lib)
    return x.detach(), x.dim(), x.tolist(), x.requires_grad_(), x.is_complex()
