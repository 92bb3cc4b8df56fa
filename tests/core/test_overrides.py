"""The ``__torch_function__`` protocol inside the dispatcher."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import pytest

import flambeau
from flambeau.core.operators.overrides import (
    DisableTorchFunctionSubclass,
    flattened,
    has_torch_function,
    overriding,
)


class Sub(flambeau.Tensor):
    pass


class Derived(Sub):
    pass


class Word:
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return func.__name__


def sub(*values):
    return flambeau.tensor(values or (1.0, 2.0)).as_subclass(Sub)


def test_plain_tensors_numbers_and_parameters_override_nothing():
    parameter = flambeau.nn.Parameter(flambeau.ones(1))
    assert not has_torch_function((flambeau.ones(1), parameter, 3, "a", None, [sub()]))


def test_subclasses_and_other_types_override():
    assert has_torch_function((1, sub()))
    assert has_torch_function((Word(),))


def test_nested_arguments_are_found():
    assert flattened((1, [2, (3, [4])])) == [1, 2, 3, 4]
    arguments = (1, 2)
    assert flattened(arguments) is arguments


def test_arguments_inside_lists_override():
    assert flambeau.stack([flambeau.ones(1), Word()]) == "stack"
    assert type(flambeau.stack([flambeau.ones(2), sub()])) is Sub


def test_each_type_is_asked_once_subclasses_first():
    a, b, c = sub(), flambeau.ones(2).as_subclass(Derived), sub()
    assert [type(each) for each in overriding((a, b, c))] == [Derived, Sub]


def test_overrides_can_be_switched_off():
    with DisableTorchFunctionSubclass():
        assert type(sub() + 1) is flambeau.Tensor
    assert type(sub() + 1) is Sub


def test_an_override_may_call_the_function_itself():
    class Doubling(flambeau.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            with DisableTorchFunctionSubclass():
                return func(*args, **(kwargs or {})) * 2

    x = flambeau.ones(2).as_subclass(Doubling)
    assert flambeau.add(x, 1).tolist() == [4.0, 4.0]


def test_named_tuples_keep_their_type():
    result = sub(3.0, 1.0).sort()
    assert type(result.values) is Sub
    assert result.indices.tolist() == [1, 0]


def test_backward_is_a_function_too():
    asked = []

    class Loss(flambeau.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            asked.append(func.__name__)
            return super().__torch_function__(func, types, args, kwargs)

    x = flambeau.ones(2, requires_grad=True)
    x.sum().as_subclass(Loss).backward()
    assert "backward" in asked
    assert x.grad.tolist() == [1.0, 1.0]


def test_what_is_neither_tensor_nor_override_is_refused():
    with pytest.raises(TypeError, match="str"):
        flambeau.add(flambeau.ones(1), "a")


def test_a_refusal_names_the_function_and_the_types():
    class Unwilling:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return NotImplemented

    with pytest.raises(TypeError, match=r"exp.*Unwilling"):
        flambeau.exp(Unwilling())


def test_subclasses_run_inside_a_compiled_function():
    compiled = flambeau.compile(lambda x: x * 2)
    assert compiled(sub()).tolist() == [2.0, 4.0]


class Pair(NamedTuple):
    value: flambeau.Tensor
    scale: flambeau.Tensor


class Scaled(Pair):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        assert types == (cls,)
        return func(*[each.value * each.scale if isinstance(each, cls) else each for each in args])


def test_a_named_tuple_that_overrides_functions_is_one_argument():
    scaled = Scaled(flambeau.ones(1, 1, 3), flambeau.tensor(2.0))
    found = flambeau.nn.functional.conv1d(flambeau.ones(1, 1, 4), scaled)
    assert found.tolist() == [[[6.0, 6.0]]]
    assert flambeau.add(scaled, flambeau.ones(1)).tolist() == [[[3.0, 3.0, 3.0]]]


class _Asked(flambeau.Tensor):
    """Notes the functions that it is asked about, and gives plain results."""

    asked: ClassVar[list[str]] = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.asked.append(func.__name__)
        return flambeau.Tensor.__torch_function__(func, (flambeau.Tensor,), args, kwargs)


def test_detach_gives_a_plain_tensor_to_an_override():
    x = flambeau.ones(2).as_subclass(_Asked)
    assert type(x.detach()) is flambeau.Tensor
    with DisableTorchFunctionSubclass():
        assert type(x.detach()) is flambeau.Tensor


def test_making_a_leaf_of_a_subclass_asks_it_nothing():
    _Asked.asked.clear()
    x = flambeau.Tensor._make_subclass(_Asked, flambeau.ones(2), True)
    assert x.requires_grad
    assert _Asked.asked == []
