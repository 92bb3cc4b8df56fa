"""What a compiled function asks about tensors besides elements, and sets there, is as eager."""

import pytest

import flambeau
from flambeau import nn
from tests.compile import following
from tests.compile.following import MAY_RUN_EAGERLY, check_as_eagerly

pytestmark = MAY_RUN_EAGERLY


def shown(tensor):
    """What can be seen of a tensor."""
    is_view = isinstance(tensor, flambeau.Tensor) and tensor._is_view()
    return following.shown(tensor), is_view


# Arguments: tensors of all kinds.


def plain():
    return flambeau.tensor([[1.0, 2.0], [3.0, 4.0]])


def leaf():
    return plain().requires_grad_()


def result():
    return leaf() * 2


def retaining():
    tensor = result()
    tensor.retain_grad()
    return tensor


def view():
    return flambeau.stack([plain(), plain() + 1])[1]


def view_of_a_result():
    return flambeau.stack([result(), plain() + 1])[0]


def tagged():
    tensor = plain()
    tensor.tag = 4.0
    return tensor


def tagged_otherwise():
    tensor = plain()
    tensor.tag = 5.0
    return tensor


def hooked():
    tensor = leaf()
    tensor.register_hook(lambda gradient: gradient * 3)
    return tensor


def parameter():
    return nn.Parameter(plain())


KINDS = [
    plain, leaf, result, retaining, view, view_of_a_result, tagged, tagged_otherwise, hooked,
    parameter,
]  # fmt: skip


# Functions: each asks, or sets, something.


def is_leaf(x):
    return x * (2 if x.is_leaf else 3)


def grad_fn(x):
    return x * (2 if x.grad_fn is None else 3)


def retains_grad(x):
    return x * (2 if x.retains_grad else 3)


def is_view(x):
    return x * (2 if x._is_view() else 3)


def read_attribute(x):
    return x * getattr(x, "tag", 1.0)


def has_attribute(x):
    return x * (2 if hasattr(x, "tag") else 3)


def set_attribute(x):
    x.tag = x * 2
    return x.tag + 1


def set_attribute_again(x):
    before = getattr(x, "tag", 1.0)
    x.tag = x.detach() * before
    return x * before


def register_hook(x):
    if x.requires_grad:
        x.register_hook(lambda gradient: gradient * 2)
    return x * x


def register_and_remove_hook(x):
    if x.requires_grad:
        x.register_hook(lambda gradient: gradient * 2).remove()
    return x * x


def register_hook_after_accumulation(x):
    if x.requires_grad and x.is_leaf:
        x.register_post_accumulate_grad_hook(
            lambda tensor: setattr(tensor, "grad", tensor.grad * 2)
        )
    return x * x


def backward_inside(x):
    if x.requires_grad and x.is_leaf:
        (x * x).sum().backward()
    return x.detach() + 1


def retain_grad(x):
    if x.requires_grad:
        x.retain_grad()
    return x * x


def detach_in_place(x):
    made = x * x
    if not x._is_view():
        x.detach_()
    return made + x


def detach_and_require(x):
    made = x * x
    if not x._is_view():
        x.detach_().requires_grad_()
    return made + x * 3


def transposed(x):
    if not (x.requires_grad and (x.is_leaf or x.retains_grad)):
        x.t_()
    return x * x


def unsqueezed_twice(x):
    if not (x.requires_grad and (x.is_leaf or x.retains_grad)):
        x.unsqueeze_(0).unsqueeze_(-1)
    return x * x


def squeezed(x):
    with flambeau.no_grad():
        x.unsqueeze_(0)
        x.squeeze_(0)
        x.swapaxes_(0, 1)
    return x * x


def resized(x):
    if not x.requires_grad and not x._is_view():
        x.resize_(2)
    return x * x


def data(x):
    made = x * x
    x.data = x.detach() * 3
    return made + x


QUESTIONS = [
    is_leaf, grad_fn, retains_grad, is_view, read_attribute, has_attribute, set_attribute,
    set_attribute_again, register_hook, register_and_remove_hook, register_hook_after_accumulation,
    backward_inside, retain_grad, detach_in_place, detach_and_require, transposed,
    unsqueezed_twice, squeezed, resized, data,
]  # fmt: skip


def seen(run, kind):
    """What can be seen after a call, and after the backward of its result."""
    x = kind()
    made = run(x)
    found = [shown(made), shown(x)]
    if made.requires_grad:
        made.sum().backward()
        found += [shown(x), x.retains_grad]
    return found


@pytest.mark.parametrize("function", QUESTIONS, ids=lambda function: function.__name__)
def test_arguments_of_every_kind_are_as_eager(function):
    run = flambeau.compile(function)
    for kind in [*KINDS, *KINDS[::-1]]:
        assert seen(run, kind) == seen(function, kind), kind.__name__


def test_versions_and_bases_from_outside_are_refused():
    kept, x = flambeau.ones(2), view()
    with pytest.raises(RuntimeError, match="_version"):
        flambeau.compile(lambda: kept * kept._version, fullgraph=True)()
    with pytest.raises(RuntimeError, match="_version"):
        flambeau.compile(lambda x: x * x._version, fullgraph=True)(x)
    with pytest.raises(RuntimeError, match="_base of an argument"):
        flambeau.compile(lambda x: x._base, fullgraph=True)(x)
    with pytest.raises(RuntimeError, match="register it on the tensor"):
        flambeau.compile(lambda x: x.grad_fn.register_hook(print), fullgraph=True)(result())
    doubled = flambeau.compile(lambda x: x * 2 if x._base is None else x)(kept)
    assert doubled.sum().item() == 4
    made_inside = flambeau.compile(lambda x: x + (x * 2).add_(1)._version, fullgraph=True)(kept)
    assert made_inside.tolist() == [2.0, 2.0]


def test_constants_are_set_on_arguments_at_each_call():
    def function(x):
        x.name, x.pair = "x", (x * 2, None)

    run = flambeau.compile(function)
    for _ in range(2):
        x = plain()
        run(x)
        assert x.name == "x"
        assert x.pair[0].tolist() == (x * 2).tolist()
        assert x.pair[1] is None


def test_a_retaining_tensor_changes_its_shape_inside():
    def function(x):
        return x.t_() * 2

    eager, compiled = retaining(), retaining()
    run = flambeau.compile(function)
    run(retaining())
    for tensor, made in ((eager, function(eager)), (compiled, run(compiled))):
        made.sum().backward()
        assert tensor.retains_grad
    assert compiled.grad.tolist() == eager.grad.tolist()
    assert compiled.grad.shape == compiled.shape


# Tensors from outside that are only looked at.


def look_at_flag(tensor, x):
    return x * (2 if tensor.requires_grad else 3)


def look_at_shape(tensor, x):
    return x * tensor.shape[0] + tensor.dim() + len(tensor)


def look_at_dtype(tensor, x):
    return x.to(tensor.dtype)


def look_at_history(tensor, x):
    return x * (2 if tensor.is_leaf else 3)


def use(tensor, x):
    return (x * tensor.sum()).detach() * (2 if tensor.is_leaf else 3)


def change_flag(tensor):
    tensor.requires_grad_(not tensor.requires_grad)


def change_elements(tensor):
    tensor.data = flambeau.ones(3, 2)


def change_dtype(tensor):
    tensor.data = tensor.data.double()


def write_on_the_tape(tensor):
    if not tensor.requires_grad:
        tensor.mul_(nn.Parameter(flambeau.ones(())))


def take_off_the_tape(tensor):
    tensor.detach_()


def change_shape(tensor):
    with flambeau.no_grad():
        tensor.unsqueeze_(0)


CHANGES = [
    change_flag, change_elements, change_dtype, write_on_the_tape, take_off_the_tape, change_shape,
]  # fmt: skip


@pytest.mark.parametrize("place", ["closure", "list", "module", "gradient"])
@pytest.mark.parametrize(
    "look", [look_at_flag, look_at_shape, look_at_dtype, look_at_history, use],
    ids=lambda look: look.__name__,
)  # fmt: skip
def test_changes_of_what_is_only_looked_at_are_seen(look, place):
    tensor, module = plain(), nn.Linear(2, 2)
    if place == "module":
        tensor = module.weight = nn.Parameter(plain(), requires_grad=False)
    elif place == "gradient":
        module.weight.grad = tensor
    find = {
        "closure": lambda: tensor, "list": lambda: [tensor, None][0],
        "module": lambda: module.weight, "gradient": lambda: module.weight.grad,
    }[place]  # fmt: skip
    run, x = flambeau.compile(lambda x: look(find(), x), fullgraph=True), plain()
    for change in [*CHANGES, *CHANGES]:
        expected = look(find(), x)
        assert shown(run(x)) == shown(expected)
        assert shown(run(x)) == shown(expected)
        change(tensor)


def test_what_is_only_looked_at_compiles_once():
    module = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    module[0].requires_grad_(False)

    def function(x):
        for each in module.parameters():
            if each.requires_grad and each.dim() > 1:
                x = x + each.shape[0]
        return x

    run = flambeau.compile(function)
    for _ in range(3):
        assert run(plain()).tolist() == (plain() + 2).tolist()
    assert run.program_count == 1
    module.requires_grad_(True)
    assert run(plain()).tolist() == (plain() + 4).tolist()
    assert run.program_count == 2


def hooks_on_a_parameter_add_up():
    weight = nn.Parameter(plain())

    def step(x):
        weight.register_hook(lambda gradient: gradient * 2)
        (x * weight).sum().backward()

    return step, lambda: (weight, len(weight._hooks))


def detached_at_each_call():
    weight = nn.Parameter(plain())
    state = weight * 2

    def step(x):
        made = x * state
        state.detach_()
        return made

    return step, lambda: (state, weight), lambda call: state.add_(weight)


def returned_gradient():
    weight = nn.Parameter(plain())
    weight.grad = plain()
    return lambda x: weight.grad, lambda: weight, lambda call: setattr(weight, "grad", plain() * 2)


@pytest.mark.parametrize(
    "make", [hooks_on_a_parameter_add_up, detached_at_each_call, returned_gradient]
)
def test_tensors_from_outside_are_changed_as_eagerly(make):
    def backward(result):
        if result is not None and result.requires_grad:
            result.sum().backward()

    check_as_eagerly(make, after=backward)
