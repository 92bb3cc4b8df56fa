"""Calls that fail, and hooks that come and go while they run."""

import collections
import contextlib
import copy
import functools

from tests.conformance.scenario import Table

scenario = Table()


class Stop(BaseException):
    """What stops a program rather than a call."""


def recorder(seen, label, result=None):
    """A hook that notes how many arguments it gets, and the last of them."""

    def hook(module, *given):
        seen.append((label, len(given), given[-1]))
        return result

    return hook


def five(*given):
    """A hook that replaces everything by 5."""
    return 5


@scenario
def an_always_called_hook_after_a_base_exception_in_a_pre_hook(lib, kit):
    seen = []
    module = kit.Echo()
    module.register_forward_hook(recorder(seen, "always"), always_call=True)

    def bad(module, args):
        raise Stop("x")

    module.register_forward_pre_hook(bad)
    with contextlib.suppress(Stop):
        module(1)
    return seen


@scenario
def an_always_called_hook_after_an_interrupt(lib, kit):
    seen = []

    class Model(lib.nn.Module):
        def forward(self, input):
            raise KeyboardInterrupt

    module = Model()
    module.register_forward_hook(recorder(seen, "always"), always_call=True)
    with contextlib.suppress(KeyboardInterrupt):
        module(1)
    return seen


@scenario
def an_always_called_hook_that_raises_a_base_exception(lib, kit):
    seen = []

    def bad(*args):
        raise Stop("hook")

    failing = kit.Failing()
    failing.register_forward_hook(bad, always_call=True)
    failing.register_forward_hook(recorder(seen, "2"), always_call=True)
    try:
        failing(1)
    except (Stop, ValueError) as error:
        seen.append(type(error).__name__)
    return seen


@scenario
def always_called_hooks_hand_on_what_they_return(lib, kit):
    seen = []
    failing = kit.Failing()
    failing.register_forward_hook(recorder(seen, "a", 5), always_call=True)
    failing.register_forward_hook(recorder(seen, "b"), always_call=True)
    failing.register_forward_hook(recorder(seen, "never"))
    try:
        failing(1)
    except ValueError as error:
        seen.append(str(error))
    return seen


@scenario
def an_always_called_hook_sees_what_earlier_hooks_made(lib, kit):
    seen = []
    echo = kit.Echo()
    echo.register_forward_hook(recorder(seen, "a", 10))

    def bad(module, args, output):
        seen.append(("bad", output))
        raise RuntimeError("b")

    echo.register_forward_hook(bad)
    echo.register_forward_hook(recorder(seen, "c"), always_call=True)
    try:
        echo(1)
    except RuntimeError as error:
        seen.append(str(error))
    return seen


@scenario
def an_always_called_hook_that_fails_first(lib, kit):
    seen = []
    echo = kit.Echo()

    def bad(module, args, output):
        seen.append("bad")
        raise RuntimeError("b")

    echo.register_forward_hook(bad, always_call=True)
    echo.register_forward_hook(recorder(seen, "c"), always_call=True)
    try:
        echo(1)
    except RuntimeError as error:
        seen.append(str(error))
    return seen


@scenario
def an_always_called_hook_removed_by_forward(lib, kit):
    seen = []

    class Model(lib.nn.Module):
        def forward(self, input):
            handle.remove()
            raise ValueError("q")

    module = Model()
    handle = module.register_forward_hook(recorder(seen, "a"), always_call=True)
    with contextlib.suppress(ValueError):
        module(1)
    return seen


@scenario
def an_always_called_hook_added_by_forward(lib, kit):
    seen = []

    class Model(lib.nn.Module):
        def forward(self, input):
            module.register_forward_hook(recorder(seen, "a"), always_call=True)
            raise ValueError("q")

    module = Model()
    module.register_forward_hook(lambda *args: None)
    with contextlib.suppress(ValueError):
        module(1)
    return seen


@scenario
def an_always_called_hook_added_to_a_module_without_hooks(lib, kit):
    seen = []

    class Model(lib.nn.Module):
        def forward(self, input):
            module.register_forward_hook(recorder(seen, "a"), always_call=True)
            raise ValueError("q")

    module = Model()
    with contextlib.suppress(ValueError):
        module(1)
    return seen


@scenario
def an_always_called_hook_sees_the_arguments_of_pre_hooks(lib, kit):
    seen = []
    failing = kit.Failing()
    failing.register_forward_pre_hook(lambda module, args: (7, 8))
    failing.register_forward_hook(
        lambda module, args, output: seen.append((args, output)), always_call=True
    )
    with contextlib.suppress(ValueError):
        failing(1)
    return seen


@scenario
def always_called_hooks_of_both_kinds(lib, kit):
    seen = []
    failing = kit.Failing()
    failing.register_forward_hook(recorder(seen, "own"), always_call=True)
    lib.nn.modules.module.register_module_forward_hook(recorder(seen, "glob"), always_call=True)
    with contextlib.suppress(ValueError):
        failing(1)
    return seen


@scenario
def always_called_hooks_of_a_tree(lib, kit):
    seen = []
    module = lib.nn.Sequential(kit.Echo(), kit.Failing())
    for name, each in module.named_modules():
        each.register_forward_hook(recorder(seen, name), always_call=True)
    with contextlib.suppress(ValueError):
        module(1)
    return seen


@scenario
def an_always_called_hook_beside_backward_hooks(lib, kit):
    seen = []
    failing = kit.Failing()
    failing.register_full_backward_hook(lambda *args: None)
    failing.register_forward_hook(
        lambda module, args, output: seen.append(
            (type(args[0]).__name__, args[0].grad_fn is not None, output)
        ),
        always_call=True,
    )
    with contextlib.suppress(ValueError):
        failing(lib.ones(1, requires_grad=True))
    return seen


@scenario
def the_context_of_an_error_in_an_always_called_hook(lib, kit):
    failing = kit.Failing()

    def bad(*args):
        raise KeyError("k")

    failing.register_forward_hook(bad, always_call=True)
    try:
        failing(1)
    except ValueError as error:
        return type(error.__context__).__name__, type(error.__cause__).__name__


@scenario
def a_hook_that_removes_a_later_one(lib, kit):
    seen = []
    echo = kit.Echo()

    def first(module, args, output):
        seen.append("first")
        later.remove()

    echo.register_forward_hook(first)
    later = echo.register_forward_hook(recorder(seen, "second"))
    echo(1)
    echo(1)
    return seen


@scenario
def a_pre_hook_that_removes_a_later_one_with_keywords(lib, kit):
    seen = []
    echo = kit.Echo()

    def first(module, args):
        seen.append("first")
        later.remove()

    echo.register_forward_pre_hook(first)
    later = echo.register_forward_pre_hook(recorder(seen, "second"), with_kwargs=True)
    try:
        echo(1, k=2)
    except (KeyError, RuntimeError) as error:
        seen.append(type(error).__name__)
    return seen


@scenario
def a_pre_hook_that_adds_both_kinds(lib, kit):
    seen = []
    echo = kit.Echo()

    def first(module, args):
        seen.append("first")
        module.register_forward_pre_hook(recorder(seen, "newpre"))
        module.register_forward_hook(recorder(seen, "newpost"))
        handle.remove()

    handle = echo.register_forward_pre_hook(first)
    echo(1)
    seen.append("--")
    echo(1)
    return seen


@scenario
def a_pre_hook_that_adds_a_backward_hook(lib, kit):
    seen = []
    module = kit.Scale()

    def first(owner, args):
        handle.remove()
        owner.register_full_backward_hook(lambda *args: seen.append("bw"))

    handle = module.register_forward_pre_hook(first)
    module(lib.ones(2, requires_grad=True)).sum().backward()
    seen.append("-")
    module(lib.ones(2, requires_grad=True)).sum().backward()
    return seen


@scenario
def hooks_that_return_what_is_false(lib, kit):
    echo = kit.Echo()
    echo.register_forward_hook(lambda *args: 0)
    found = [echo(1)]
    echo.register_forward_pre_hook(lambda *args: ())
    found.append(echo(1))
    return found


@scenario
def a_pre_hook_that_returns_a_list(lib, kit):
    echo = kit.Echo()
    echo.register_forward_pre_hook(lambda module, args: [1, 2])
    return echo(5)


@scenario
def a_pre_hook_that_drops_the_keywords(lib, kit):
    echo = kit.Echo()
    echo.register_forward_pre_hook(lambda module, args, kwargs: ((1,), {}), with_kwargs=True)
    return echo(5, x=3)


@scenario
def a_pre_hook_that_returns_both_in_a_list(lib, kit):
    echo = kit.Echo()
    echo.register_forward_pre_hook(lambda module, args, kwargs: [(1,), {}], with_kwargs=True)
    return echo(5, x=3)


@scenario
def a_pre_hook_that_changes_the_keywords_in_place(lib, kit):
    echo = kit.Echo()

    def hook(module, args, kwargs):
        kwargs["new"] = 1

    echo.register_forward_pre_hook(hook, with_kwargs=True)
    return echo(5, x=3)


@scenario
def a_hook_that_cannot_be_called(lib, kit):
    echo = kit.Echo()
    echo.register_forward_hook(3)
    echo(1)


@scenario
def one_hook_registered_twice(lib, kit):
    seen = []
    echo = kit.Echo()
    hook = recorder(seen, "x")
    first = echo.register_forward_hook(hook)
    echo.register_forward_hook(hook)
    echo(1)
    first.remove()
    echo(1)
    return seen, len(echo._forward_hooks)


@scenario
def removing_a_hook_twice(lib, kit):
    echo = kit.Echo()
    handle = echo.register_forward_hook(five, with_kwargs=True, always_call=True)
    handle.remove()
    handle.remove()
    return (
        len(echo._forward_hooks),
        len(echo._forward_hooks_with_kwargs),
        len(echo._forward_hooks_always_called),
    )


@scenario
def a_handle_in_a_block_that_fails(lib, kit):
    echo = kit.Echo()
    try:
        with echo.register_forward_hook(five):
            found = echo(1)
            raise KeyError
    except KeyError:
        pass
    return found, echo(1)


@scenario
def a_copied_handle(lib, kit):
    echo = kit.Echo()
    handle = echo.register_forward_hook(five)
    copied = copy.copy(handle)
    copied.remove()
    return echo(1), copied.id == handle.id


@scenario
def a_table_of_hooks_replaced(lib, kit):
    echo = kit.Echo()
    echo.register_forward_hook(five)
    echo._forward_hooks = collections.OrderedDict()
    found = [echo(1)]
    echo._forward_hooks.clear()
    echo.register_forward_hook(five)
    found.append(echo(1))
    return found


@scenario
def a_module_that_calls_itself(lib, kit):
    seen = []

    class Model(lib.nn.Module):
        def forward(self, input):
            return input if input == 0 else self(input - 1)

    module = Model()
    module.register_forward_hook(lambda module, args, output: seen.append(args))
    module(2)
    return seen


@scenario
def hooks_that_are_methods_follow_a_deep_copy(lib, kit):
    class Model(lib.nn.Module):
        def __init__(self):
            super().__init__()
            self.calls = 0
            self.register_forward_hook(self.count)
            self.register_forward_pre_hook(self.count_tens)

        def count(self, module, args, output):
            self.calls += 1

        def count_tens(self, module, args):
            self.calls += 10

        def forward(self, input):
            return input

    module = Model()
    module(1)
    copied = copy.deepcopy(module)
    copied(1)
    return module.calls, copied.calls


@scenario
def a_partial_as_hook(lib, kit):
    echo = kit.Echo()
    echo.register_forward_hook(functools.partial(lambda value, module, args, output: value, 8))
    return echo(1)


@scenario
def keywords_with_the_names_of_internals(lib, kit):
    class Model(lib.nn.Module):
        def forward(self, input, args=None, kwargs=None, hook=None):
            return input, args, kwargs, hook

    module = Model()
    found = [module(1, args=2, kwargs=3, hook=4)]
    module.register_forward_hook(lambda *args: None)
    found.append(module(1, args=2, kwargs=3, hook=4))
    return found


@scenario
def a_keyword_named_module(lib, kit):
    class Model(lib.nn.Module):
        def forward(self, input, module=None):
            return input, module

    module = Model()
    module.register_forward_hook(lambda *args: None)
    return module(1, module=3)


@scenario
def a_global_hook_added_by_forward(lib, kit):
    seen = []

    class Model(lib.nn.Module):
        def forward(self, input):
            self.handle = lib.nn.modules.module.register_module_forward_hook(recorder(seen, "g"))
            return input

    Model()(1)
    return seen


@scenario
def a_hook_added_by_forward_of_a_module_without_hooks(lib, kit):
    seen = []

    class Model(lib.nn.Module):
        def forward(self, input):
            self.register_forward_hook(recorder(seen, "g"))
            return input

    Model()(1)
    return seen


@scenario
def forward_as_a_generator(lib, kit):
    class Model(lib.nn.Module):
        def forward(self, input):
            yield input
            yield (input + 1)

    return list(Model()(3))


@scenario
def forward_as_static_and_class_method(lib, kit):
    class Model(lib.nn.Module):
        @staticmethod
        def forward(input):
            return input + 1

    class Other(lib.nn.Module):
        @classmethod
        def forward(cls, input):
            return cls.__name__, input

    return Model()(3), Other()(3)


@scenario
def forward_as_a_property(lib, kit):
    class Model(lib.nn.Module):
        @property
        def forward(self):
            return lambda input: input * 5

    return Model()(2)


@scenario
def forward_set_to_none(lib, kit):
    class Model(lib.nn.Module):
        forward = None

    Model()(2)


@scenario("Model")
def forward_of_the_base_class(lib, kit):
    class Model(lib.nn.Module):
        def forward(self, input):
            return super().forward(input)

    Model()(2)
