"""Calling modules with forward hooks, and what they see and change."""

import copy
import pickle

from tests.conformance.scenario import Table, recorder

scenario = Table()


@scenario
def a_plain_call(lib, kit):
    return kit.Net()(lib.ones(2)), kit.Echo()(1, 2), kit.Echo()(1, a=2)


@scenario("Bare")
def a_module_without_forward(lib, kit):
    class Bare(lib.nn.Module):
        pass

    Bare()(1)


@scenario
def forward_replaced_on_an_instance(lib, kit):
    echo = kit.Echo()
    echo.forward = lambda x: x + 1
    return echo(1)


@scenario
def all_forward_hooks_in_order(lib, kit):
    seen = []
    hooks = lib.nn.modules.module
    echo = kit.Echo()
    echo.register_forward_hook(recorder(seen, "own hook"))
    echo.register_forward_pre_hook(recorder(seen, "own pre"))
    hooks.register_module_forward_hook(recorder(seen, "global hook"))
    hooks.register_module_forward_pre_hook(recorder(seen, "global pre"))
    result = echo(1, 2)
    return seen, result


@scenario
def hooks_of_nested_modules(lib, kit):
    seen = []
    model = lib.nn.Sequential(kit.Echo(), kit.Echo())
    for name, module in model.named_modules():
        module.register_forward_pre_hook(recorder(seen, f"pre {name}"))
        module.register_forward_hook(recorder(seen, f"post {name}"))
    return model(1), seen


@scenario
def prepended_hooks_come_first(lib, kit):
    seen = []
    echo = kit.Echo()
    for number in range(2):
        echo.register_forward_pre_hook(recorder(seen, ("pre", number)), prepend=number == 1)
        echo.register_forward_hook(recorder(seen, ("post", number)), prepend=number == 1)
    echo(1)
    return seen


@scenario
def a_pre_hook_replaces_the_arguments(lib, kit):
    echo = kit.Echo()
    echo.register_forward_pre_hook(lambda module, args: (args[0] + 1, 5))
    return echo(1)


@scenario
def a_pre_hook_returns_a_single_value(lib, kit):
    echo = kit.Echo()
    echo.register_forward_pre_hook(lambda module, args: args[0] + 1)
    return echo(1)


@scenario
def a_pre_hook_does_not_see_keywords(lib, kit):
    seen = []
    echo = kit.Echo()
    echo.register_forward_pre_hook(recorder(seen, "pre"))
    return echo(1, key=2), seen


@scenario
def a_pre_hook_with_keywords(lib, kit):
    seen = []
    echo = kit.Echo()
    echo.register_forward_pre_hook(recorder(seen, "pre"), with_kwargs=True)
    return echo(1, key=2), seen


@scenario
def a_pre_hook_replaces_keywords(lib, kit):
    echo = kit.Echo()
    echo.register_forward_pre_hook(
        lambda module, args, kwargs: ((9,), {"key": kwargs["key"] + 1}), with_kwargs=True
    )
    return echo(1, key=2)


@scenario("oops")
def a_pre_hook_with_keywords_returns_nonsense(lib, kit):
    echo = kit.Echo()
    echo.register_forward_pre_hook(lambda module, args, kwargs: "oops", with_kwargs=True)
    echo(1)


@scenario
def a_forward_hook_replaces_the_output(lib, kit):
    echo = kit.Echo()
    echo.register_forward_hook(lambda module, args, output: output + 1)
    echo.register_forward_hook(lambda module, args, output: output * 10)
    return echo(1)


@scenario
def a_forward_hook_with_keywords(lib, kit):
    seen = []
    echo = kit.Echo()
    echo.register_forward_hook(recorder(seen, "post", "replaced"), with_kwargs=True)
    return echo(1, key=2), seen


@scenario
def a_forward_hook_sees_the_arguments_that_pre_hooks_left(lib, kit):
    seen = []
    echo = kit.Echo()
    echo.register_forward_pre_hook(lambda module, args: (7,))
    echo.register_forward_hook(recorder(seen, "post"))
    return echo(1), seen


@scenario
def a_global_hook_with_keywords(lib, kit):
    seen = []
    lib.nn.modules.module.register_module_forward_hook(recorder(seen, "post"), with_kwargs=True)
    return kit.Echo()(1, key=2), seen


@scenario
def a_global_pre_hook_replaces_the_arguments(lib, kit):
    lib.nn.modules.module.register_module_forward_pre_hook(lambda module, args: args[0] + 1)
    return kit.Echo()(1)


@scenario
def an_always_called_hook_sees_a_failure(lib, kit):
    seen = []
    failing = kit.Failing()
    failing.register_forward_hook(recorder(seen, "always"), always_call=True)
    failing.register_forward_hook(recorder(seen, "sometimes"))
    try:
        failing(1)
    except ValueError as error:
        seen.append(str(error))
    return seen


@scenario
def an_always_called_hook_runs_once_when_a_later_hook_fails(lib, kit):
    def fail(module, args, output):
        raise KeyError("hook")

    seen = []
    echo = kit.Echo()
    echo.register_forward_hook(recorder(seen, "first", 10), always_call=True)
    echo.register_forward_hook(fail)
    echo.register_forward_hook(recorder(seen, "last"), always_call=True)
    try:
        echo(1)
    except KeyError as error:
        seen.append(str(error))
    return seen


@scenario
def an_always_called_hook_that_fails_itself(lib, kit):
    def fail(module, args, output):
        raise KeyError("hook")

    failing = kit.Failing()
    failing.register_forward_hook(fail, always_call=True)
    failing(1)


@scenario
def an_always_called_hook_with_keywords_sees_a_failure(lib, kit):
    seen = []
    failing = kit.Failing()
    failing.register_forward_hook(recorder(seen, "always"), always_call=True, with_kwargs=True)
    try:
        failing(1, key=2)
    except ValueError:
        seen.append("raised")
    return seen


@scenario
def a_global_always_called_hook_sees_a_failure(lib, kit):
    seen = []
    lib.nn.modules.module.register_module_forward_hook(recorder(seen, "always"), always_call=True)
    try:
        kit.Failing()(1)
    except ValueError:
        seen.append("raised")
    return seen


@scenario
def an_always_called_hook_after_a_failing_pre_hook(lib, kit):
    def fail(module, args):
        raise KeyError("pre")

    seen = []
    echo = kit.Echo()
    echo.register_forward_pre_hook(lambda module, args: (5,))
    echo.register_forward_pre_hook(fail)
    echo.register_forward_hook(recorder(seen, "always"), always_call=True)
    try:
        echo(1)
    except KeyError:
        seen.append("raised")
    return seen


@scenario
def a_failing_forward(lib, kit):
    kit.Failing()(1)


@scenario
def removing_a_hook(lib, kit):
    seen = []
    echo = kit.Echo()
    handle = echo.register_forward_hook(recorder(seen, "post"), with_kwargs=True, always_call=True)
    echo(1)
    handle.remove()
    handle.remove()
    echo(2)
    return seen, [
        len(getattr(echo, name))
        for name in (
            "_forward_hooks", "_forward_hooks_with_kwargs", "_forward_hooks_always_called",
        )
    ]  # fmt: skip


@scenario
def a_handle_as_context_manager(lib, kit):
    seen = []
    echo = kit.Echo()
    with echo.register_forward_pre_hook(recorder(seen, "pre")):
        echo(1)
    echo(2)
    return seen


@scenario
def a_handle_outlives_its_module(lib, kit):
    handle = kit.Echo().register_forward_hook(print)
    handle.remove()
    return handle.hooks_dict_ref() is None


@scenario
def a_handle_works_after_pickling_with_its_module(lib, kit):
    model = lib.nn.Sequential()
    handle = model.register_forward_hook(print)
    other, other_handle = pickle.loads(pickle.dumps((model, handle)))
    before = len(other._forward_hooks)
    other_handle.remove()
    return before, len(other._forward_hooks), len(model._forward_hooks)


@scenario
def a_handle_works_after_deep_copying_with_its_module(lib, kit):
    echo = kit.Echo()
    handle = echo.register_forward_hook(recorder([], "post"))
    other, other_handle = copy.deepcopy((echo, handle))
    other_handle.remove()
    return len(other._forward_hooks), len(echo._forward_hooks)


@scenario
def ids_of_handles_grow(lib, kit):
    echo = kit.Echo()
    first = echo.register_forward_hook(print)
    second = echo.register_forward_pre_hook(print)
    return second.id > first.id, list(echo._forward_hooks) == [first.id]


@scenario
def hooks_put_into_the_table_directly(lib, kit):
    seen = []
    echo = kit.Echo()
    echo._forward_hooks[12345678] = recorder(seen, "post")
    echo(1)
    echo._forward_hooks.clear()
    echo(2)
    return seen


@scenario
def a_table_of_hooks_put_in_place(lib, kit):
    seen = []
    echo = kit.Echo()
    handle = echo.register_forward_hook(recorder(seen, "old"))
    echo._forward_hooks = type(echo._forward_hooks)()
    echo(1)
    echo.register_forward_hook(recorder(seen, "new"))
    handle.remove()
    echo(2)
    return seen


@scenario
def a_hook_registered_during_forward(lib, kit):
    seen = []

    class Registering(lib.nn.Module):
        def forward(self, x):
            self.register_forward_hook(recorder(seen, "late"))
            return x

    module = Registering()
    module(1)
    first = list(seen)
    module(2)
    return first, seen


@scenario
def a_hook_that_removes_itself(lib, kit):
    seen = []
    echo = kit.Echo()

    def once(module, args, output):
        seen.append(args)
        handle.remove()

    handle = echo.register_forward_hook(once)
    echo.register_forward_hook(recorder(seen, "other"))
    echo(1)
    echo(2)
    return seen


@scenario
def call_impl_overridden_in_a_class(lib, kit):
    class Logged(kit.Echo):
        def _call_impl(self, *args, **kwargs):
            return "logged", super()._call_impl(*args, **kwargs)

    seen = []
    logged = Logged()
    plain_result = logged(1)
    logged.register_forward_hook(recorder(seen, "post"))
    return plain_result, logged(2), seen


@scenario
def call_overridden_as_the_documentation_shows(lib, kit):
    class Logged(kit.Echo):
        def __call__(self, *args, **kwargs):
            return "before", self._call_impl(*args, **kwargs), "after"

    seen = []
    logged = Logged()
    logged.register_forward_pre_hook(recorder(seen, "pre"))
    return logged(1), seen


@scenario
def calling_super_call(lib, kit):
    class Logged(kit.Echo):
        def __call__(self, *args, **kwargs):
            return "logged", super().__call__(*args, **kwargs)

    return Logged()(1)


@scenario
def a_call_before_init(lib, kit):
    class Early(lib.nn.Module):
        def __init__(self):
            self(1)

        def forward(self, x):
            return x

    Early()
