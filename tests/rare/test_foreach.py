"""Operators over lists of tensors."""

import pytest

import flambeau
from flambeau.rare import foreach


def lists():
    return [flambeau.ones(2), flambeau.full((1, 2), 3.0)]


def values(tensors):
    return [each.tolist() for each in tensors]


def test_results_come_as_a_tuple_and_the_overwritten_list_as_it_is():
    tensors = lists()
    assert isinstance(flambeau._foreach_neg(tensors), tuple)
    assert flambeau._foreach_neg_(tensors) is tensors
    assert values(tensors) == [[-1, -1], [[-3, -3]]]


def test_operands_are_one_for_all_or_one_for_each():
    for other in (
        2,
        [2, 2],
        flambeau.tensor(2.0),
        [flambeau.tensor(2.0)] * 2,
        flambeau.tensor([2.0] * 2),
    ):
        assert values(flambeau._foreach_mul(lists(), other)) == [[2, 2], [[6, 6]]]
    assert values(flambeau._foreach_mul(lists(), [0, 2])) == [[0, 0], [[6, 6]]]
    assert values(flambeau._foreach_add(lists(), lists(), alpha=2)) == [[3, 3], [[9, 9]]]
    assert values(flambeau._foreach_addcmul(lists(), lists(), lists(), value=2)) == [
        [3, 3],
        [[21, 21]],
    ]


def test_an_average_follows_the_weights():
    averages = lists()
    flambeau._foreach_mul_(averages, 0.5)
    flambeau._foreach_add_(averages, lists(), alpha=0.5)
    assert values(averages) == values(lists())
    flambeau._foreach_lerp_(averages, [flambeau.zeros(2), flambeau.zeros(2)], 0.5)
    assert values(averages) == [[0.5, 0.5], [[1.5, 1.5]]]


def test_a_call_is_one_program_whatever_the_numbers(monkeypatch):
    made, ran = [], []
    kernel, run = foreach._kernel, foreach.run
    monkeypatch.setattr(foreach, "_kernel", lambda *key: made.append(key) or kernel(*key))
    monkeypatch.setattr(foreach, "run", lambda *call: ran.append(call) or run(*call))
    for number in (0.5, 0.25, 3.0):
        flambeau._foreach_mul_(lists(), number)
    assert len(ran) == 3
    assert len({kernel(*key) for key in made}) == 1


def test_gradients_reach_every_tensor():
    tensors = [each.requires_grad_() for each in lists()]
    first, second = flambeau._foreach_mul(tensors, [2.0, 3.0])
    assert type(first.grad_fn).__name__ == "ForeachMulBackward0"
    (first.sum() + second.sum()).backward()
    assert values(each.grad for each in tensors) == [[2, 2], [[3, 3]]]


def test_a_leaf_that_requires_grad_is_not_overwritten():
    tensors = [flambeau.ones(1), flambeau.ones(1, requires_grad=True)]
    with pytest.raises(RuntimeError, match=r"_foreach_add_\(\): a leaf Variable"):
        flambeau._foreach_add_(tensors, 1)
    assert values(tensors) == [[1], [1]]
    with flambeau.no_grad():
        flambeau._foreach_add_(tensors, 1)
    assert values(tensors) == [[2], [2]]


def test_all_are_overwritten_or_none():
    tensors = [flambeau.ones(1), flambeau.tensor([1])]
    with pytest.raises(RuntimeError, match="cannot be stored"):
        flambeau._foreach_add_(tensors, 0.5)
    assert values(tensors) == [[1], [1]]
    tensors = [flambeau.ones(1), flambeau.ones(1)]
    with pytest.raises(RuntimeError, match="does not fit"):
        flambeau._foreach_add_(tensors, [flambeau.ones(1), flambeau.ones(3)])
    assert values(tensors) == [[1], [1]]


def test_tensors_on_several_devices_are_computed_one_by_one():
    tensors = [flambeau.ones(2), flambeau.ones(3, device="meta")]
    here, meta = flambeau._foreach_add(tensors, 1)
    assert (here.tolist(), meta.shape, meta.is_meta) == ([2, 2], (3,), True)


def test_subclasses_are_asked_for_each_tensor():
    asked = []

    class Asked(flambeau.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            asked.append(func.__name__)
            return super().__torch_function__(func, types, args, kwargs)

    one = flambeau.ones(1).as_subclass(Asked)
    flambeau._foreach_exp([one, one])
    assert asked == ["exp", "exp"]


def test_compiled_functions_overwrite_lists():
    @flambeau.compile
    def step(averages, weights):
        flambeau._foreach_lerp_(averages, weights, 0.5)

    averages = [flambeau.zeros(2), flambeau.zeros(1, 2)]
    step(averages, lists())
    assert values(averages) == [[0.5, 0.5], [[1.5, 1.5]]]


def test_the_default_dtype_counts_when_the_call_is_made():
    whole = [flambeau.tensor([4])]
    assert flambeau._foreach_sqrt(whole)[0].dtype is flambeau.float32
    flambeau.set_default_dtype(flambeau.float64)
    try:
        assert flambeau._foreach_sqrt(whole)[0].dtype is flambeau.float64
    finally:
        flambeau.set_default_dtype(flambeau.float32)


@pytest.mark.parametrize(
    ("name", "args", "error", "message"),
    [
        ("add", ([], 1), RuntimeError, r"_foreach_add\(\) needs at least one tensor"),
        ("add", (lists(), [1]), RuntimeError, "lists of 2 and of 1 differ"),
        ("add", (lists(),), TypeError, "takes a list of tensors, other, alpha"),
        ("exp", (lists(), 1), TypeError, "takes a list of tensors"),
        ("exp", (flambeau.ones(2),), TypeError, "takes a list of tensors, got Tensor"),
        ("exp", ([1.0],), TypeError, "element 0 is not a tensor but float"),
        ("add_", ([flambeau.tensor([1])], 0.5), RuntimeError, "cannot be stored"),
    ],
)
def test_what_is_no_list_of_tensors_is_refused(name, args, error, message):
    with pytest.raises(error, match=message):
        getattr(flambeau, f"_foreach_{name}")(*args)


def test_there_are_no_others():
    for name in ("nothing", "norm_", "clone_", "copy", "zero"):
        assert not hasattr(flambeau, f"_foreach_{name}")
