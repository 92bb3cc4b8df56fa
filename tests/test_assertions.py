"""Assertions under PyTorch's names."""

import pytest

import flambeau


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("_check", RuntimeError), ("_check_index", IndexError), ("_check_value", ValueError),
        ("_check_type", TypeError), ("_check_not_implemented", NotImplementedError),
    ],
)  # fmt: skip
def test_a_condition_that_is_false_raises_its_error(name, error):
    check = getattr(flambeau, name)
    assert check(True, lambda: "never asked for") is None
    with pytest.raises(error, match="cond to be True"):
        check(False)
    with pytest.raises(error, match=r"^3 of 4$"):
        check(False, lambda: "3 of 4")


def test_conditions_are_bools_or_tensors_of_bools():
    yes, mixed = flambeau.tensor([True]), flambeau.tensor([True, False])
    with pytest.raises(TypeError, match="_check_tensor_all"):
        flambeau._check(yes)
    with pytest.raises(TypeError, match="must be a bool"):
        flambeau._check(1)
    with pytest.raises(TypeError, match="callable"):
        flambeau._check(False, "text")
    flambeau._check_tensor_all(yes)
    with pytest.raises(RuntimeError, match="cond to be True"):
        flambeau._check_tensor_all(mixed)
    with pytest.raises(KeyError, match="not all"):
        flambeau._check_tensor_all_with(KeyError, mixed, lambda: "not all")
    with pytest.raises(TypeError, match="must be a tensor"):
        flambeau._check_tensor_all(True)
    with pytest.raises(TypeError, match="int64"):
        flambeau._check_tensor_all(flambeau.tensor([1]))


def test_sizes_are_checked_against_a_limit():
    flambeau._check_is_size(3, max=3)
    for size, limit in ((-1, None), (4, 3)):
        with pytest.raises(RuntimeError, match="no size"):
            flambeau._check_is_size(size, lambda: "no size", max=limit)


def test_the_element_of_a_tensor_is_checked():
    flambeau._assert_async(flambeau.tensor(2.0))
    with pytest.raises(RuntimeError, match="got zero"):
        flambeau._assert_async(flambeau.tensor(0.0))
    with pytest.raises(RuntimeError, match=r"^negative$"):
        flambeau._assert_async(flambeau.tensor(False), "negative")


def test_checks_of_shapes_are_a_part_of_compiled_functions():
    @flambeau.compile
    def function(x):
        flambeau._check(x.shape[0] == 2, lambda: f"a length of 2 is needed, got {x.shape[0]}")
        return x + 1

    assert function(flambeau.ones(2)).tolist() == [2, 2]
    with pytest.raises(RuntimeError, match="got 3"):
        function(flambeau.ones(3))
