"""Converting a tree of modules: dtypes, devices, and what stays the same."""

from tests.conformance.scenario import Table

scenario = Table()


def mixed(lib, kit):
    """Floating point and integer members of both kinds."""
    model = kit.Deep()
    model.ids = lib.nn.Parameter(lib.tensor([1, 2]), requires_grad=False)
    return model


def dtypes_of(model):
    """The dtype of every member."""
    return {name: str(each.dtype).rpartition(".")[2] for name, each in members(model)}


def members(model):
    """Everything that is converted."""
    return [*model.named_parameters(), *model.named_buffers()]


@scenario
def double_changes_floating_point_only(lib, kit):
    return dtypes_of(mixed(lib, kit).double())


@scenario
def half_and_back(lib, kit):
    model = mixed(lib, kit).half()
    return dtypes_of(model), dtypes_of(model.float())


@scenario
def bfloat16(lib, kit):
    return dtypes_of(mixed(lib, kit).bfloat16())


@scenario
def type_changes_everything(lib, kit):
    return dtypes_of(mixed(lib, kit).type(lib.float64))


@scenario
def to_a_dtype(lib, kit):
    return dtypes_of(mixed(lib, kit).to(lib.float64))


@scenario
def to_a_dtype_by_keyword(lib, kit):
    return dtypes_of(mixed(lib, kit).to(dtype=lib.float64))


@scenario
def to_a_device_and_dtype(lib, kit):
    return dtypes_of(mixed(lib, kit).to("cpu", lib.float64))


@scenario
def to_a_device_object(lib, kit):
    model = mixed(lib, kit)
    return dtypes_of(model.to(lib.device("cpu"))), model.to(device="cpu") is model


@scenario
def to_like_a_tensor(lib, kit):
    return dtypes_of(mixed(lib, kit).to(lib.ones(1, dtype=lib.float64)))


@scenario
def to_like_a_tensor_by_keyword(lib, kit):
    return dtypes_of(mixed(lib, kit).to(tensor=lib.ones(1, dtype=lib.float64)))


@scenario
def to_without_arguments(lib, kit):
    return dtypes_of(mixed(lib, kit).to())


@scenario
def to_with_non_blocking(lib, kit):
    return dtypes_of(mixed(lib, kit).to("cpu", non_blocking=True))


@scenario("int64")
def to_an_integer_dtype(lib, kit):
    mixed(lib, kit).to(lib.int64)


@scenario
def to_a_complex_dtype_warns(lib, kit):
    return dtypes_of(kit.Scale().to(lib.complex64))


@scenario
def to_something_else(lib, kit):
    mixed(lib, kit).to([1])


@scenario
def parameters_keep_their_identity(lib, kit):
    model = mixed(lib, kit)
    before = list(model.parameters())
    model.double()
    return [a is b for a, b in zip(before, model.parameters(), strict=True)]


@scenario
def buffers_are_replaced(lib, kit):
    model = kit.Shift()
    offset = model.offset
    model.double()
    return model.offset is offset, offset, model.offset


@scenario
def unchanged_buffers_are_kept(lib, kit):
    model = kit.Shift()
    offset, calls = model.offset, model.calls
    model.float()
    return model.offset is offset, model.calls is calls


@scenario
def values_survive_conversion(lib, kit):
    return list(kit.Scale(1.5, 2.5).double().parameters())


@scenario
def gradients_convert_too(lib, kit):
    model = kit.Scale()
    model(lib.ones(2)).sum().backward()
    grad = model.weight.grad
    model.double()
    return model.weight.grad, model.weight.grad is grad, model.weight.requires_grad


@scenario
def tied_parameters_stay_tied(lib, kit):
    model = lib.nn.Module()
    model.a = kit.Scale()
    model.b = kit.Scale()
    model.b.weight = model.a.weight
    model.double()
    return model.a.weight is model.b.weight, model.b.weight


@scenario
def frozen_parameters_stay_frozen(lib, kit):
    model = kit.Scale().requires_grad_(False)
    return model.double().weight.requires_grad


@scenario
def to_meta_forgets_the_values(lib, kit):
    model = mixed(lib, kit).to("meta")
    return [(name, each) for name, each in members(model)]


@scenario
def away_from_meta(lib, kit):
    mixed(lib, kit).to("meta").to("cpu")


@scenario("to_empty")
def away_from_meta_says_what_to_do(lib, kit):
    kit.Scale().to("meta").to("cpu")


@scenario
def to_empty_keeps_shapes_and_dtypes(lib, kit):
    model = mixed(lib, kit).to("meta").to_empty(device="cpu")
    return [(name, tuple(each.shape), each.is_meta) for name, each in members(model)], dtypes_of(
        model
    )


@scenario
def to_empty_without_recursion(lib, kit):
    model = kit.Deep().to("meta")
    model.to_empty(device="cpu", recurse=False)
    return {name: each.is_meta for name, each in members(model)}


@scenario
def apply_to_tensors_of_one_module(lib, kit):
    model = kit.Deep()
    model._apply(lambda tensor: tensor + 1, recurse=False)
    return members(model)


@scenario
def apply_to_tensors_of_all_modules(lib, kit):
    model = kit.Deep()
    result = model._apply(lambda tensor: tensor * 2)
    return members(model), result is model


@scenario
def apply_calls_the_function_for_each_occurrence(lib, kit):
    seen = []
    model = lib.nn.Module()
    model.a = kit.Scale()
    model.b = model.a
    model.c = kit.Scale()
    model.c.weight = model.a.weight
    model._apply(lambda tensor: seen.append(tuple(tensor.shape)) or tensor)
    return seen


@scenario
def apply_overridden_in_a_child(lib, kit):
    class Fixed(kit.Scale):
        def _apply(self, fn, recurse=True):
            return self

    return list(lib.nn.Sequential(kit.Scale(), Fixed()).double().parameters())


@scenario
def cpu_gives_the_module(lib, kit):
    model = kit.Net()
    return model.cpu() is model


@scenario
def a_function_that_fails_half_way(lib, kit):
    def fail(tensor):
        raise ValueError("no")

    kit.Net()._apply(fail)


@scenario
def the_copy_argument_is_refused(lib, kit):
    kit.Scale().to("cpu", copy=True)


@scenario
def setting_data_keeps_the_parameter(lib, kit):
    model = kit.Scale()
    weight = model.weight
    model.weight.data = lib.zeros(3)
    return model.weight is weight, weight, weight.requires_grad


def forms_of_to(lib):
    """Arguments of `to`, some of which fit together."""
    double, cpu, other = lib.float64, lib.device("cpu"), lib.ones(1, dtype=lib.float64)
    return [
        ((), {}),
        ((None,), {}),
        ((None, double), {}),
        (("cpu", None), {}),
        ((cpu, double, True), {}),
        ((double, True), {}),
        ((other, True), {}),
        ((), {"tensor": other}),
        ((), {"device": "cpu", "dtype": double, "non_blocking": True}),
        ((double,), {"memory_format": lib.preserve_format}),
        ((double,), {"memory_format": None}),
        ((), {"memory_format": lib.contiguous_format}),
        ((double, "cpu"), {}),
        ((double,), {"device": "cpu"}),
        ((double,), {"dtype": double}),
        ((other, double), {}),
        ((other,), {"dtype": double}),
        (("cpu", True), {}),
        ((double, 1), {}),
        ((double,), {"non_blocking": None}),
        ((), {"memory_format": 3}),
        ((), {"other_name": 3}),
        (("cpu", double, True, True, True), {}),
    ]


def what_to_does(convert, lib):
    results = []
    for args, kwargs in forms_of_to(lib):
        try:
            results.append(convert().to(*args, **kwargs).dtype)
        except (TypeError, RuntimeError) as error:
            results.append(type(error).__name__)
    return results


@scenario
def forms_of_to_on_tensors(lib, kit):
    return what_to_does(lambda: lib.ones(2), lib)


@scenario
def forms_of_to_on_modules(lib, kit):
    class Typed(kit.Scale):
        @property
        def dtype(self):
            return self.weight.dtype

    copying = [((lib.float64, False, True), {}), ((lib.float64,), {"copy": False})]
    refused = []
    for args, kwargs in copying:
        try:
            kit.Scale().to(*args, **kwargs)
        except RuntimeError as error:
            refused.append(type(error).__name__)
    return what_to_does(Typed, lib), refused


@scenario
def a_function_that_gives_nothing(lib, kit):
    kit.Scale()._apply(lambda tensor: None)
