"""`assert_close`: what is close, and what is said of what is not."""

from collections import OrderedDict

import jax
import numpy as np
import pytest

import flambeau
from flambeau.testing import assert_close

NAN, INF = float("nan"), float("inf")


def message_of(*inputs, **options):
    with pytest.raises(AssertionError) as error:
        assert_close(*inputs, **options)
    return str(error.value)


@pytest.mark.parametrize(
    ("dtype", "rtol"),
    [
        ("float16", 1e-3), ("bfloat16", 1.6e-2), ("float32", 1.3e-6), ("float64", 1e-7),
        ("complex64", 1.3e-6), ("complex128", 1e-7),
    ],
)  # fmt: skip
def test_tolerances_follow_from_the_dtype(dtype, rtol):
    expected = flambeau.tensor([1000.0, -1000.0], dtype=getattr(flambeau, dtype))
    assert_close(expected * (1 + rtol / 2), expected)
    text = message_of(expected * (1 + 2 * rtol), expected)
    assert text.startswith("2 of 2 elements (100.0%) are not close")
    assert text.endswith(f"where rtol is {rtol}")


def test_integers_and_bools_are_equal_or_not():
    assert_close(flambeau.arange(3), flambeau.arange(3))
    assert_close(flambeau.tensor([True]), flambeau.tensor([True]))
    with pytest.raises(AssertionError, match=r"differ most\n  absolutely by 1 at \(2,\)"):
        assert_close(flambeau.tensor([0, 1, 3]), flambeau.arange(3))
    with pytest.raises(AssertionError, match=r"1 of 2 elements \(50.0%\)"):
        assert_close(flambeau.tensor([True, False]), flambeau.tensor([True, True]))


def test_tolerances_come_in_pairs_and_are_not_negative():
    with pytest.raises(ValueError, match="atol is missing"):
        assert_close(1.0, 1.0, rtol=1.0)
    with pytest.raises(ValueError, match="rtol is missing"):
        assert_close(1.0, 1.0, atol=1.0)
    with pytest.raises(RuntimeError, match="must not be negative, got -1 and 0"):
        assert_close(1.0, 1.0, rtol=-1, atol=0)


def test_given_tolerances_count():
    one, other = flambeau.tensor([1.0, 2.0]), flambeau.tensor([1.5, 2.0])
    assert_close(one, other, rtol=0, atol=0.5)
    assert_close(one, other, rtol=1 / 3, atol=0)
    # It is the expected value that is scaled.
    message_of(other, one, rtol=1 / 3, atol=0)
    assert_close(flambeau.arange(3), flambeau.arange(3) + 1, rtol=0, atol=1)


def test_the_message_says_how_many_differ_and_where_most():
    actual = flambeau.tensor([[1.0, 0.5, 3.0], [4.0, 5.0, 8.0]])
    expected = flambeau.tensor([[1.0, 0.25, 3.0], [4.0, 5.0, 6.0]])
    assert message_of(actual, expected) == (
        "2 of 6 elements (33.3%) are not close; they differ most\n"
        "  absolutely by 2.0 at (1, 2), where atol is 1e-05\n"
        "  relatively by 1.0 at (0, 1), where rtol is 1.3e-06"
    )


def test_elements_that_are_close_do_not_count_for_the_greatest_difference():
    actual, expected = flambeau.tensor([1e6 + 0.5, 1.0]), flambeau.tensor([1e6, 1.25])
    assert "absolutely by 0.25 at (1,)" in message_of(actual, expected)


def test_the_message_about_a_number_says_the_number():
    for actual, expected in [(1.0, 2.0), (flambeau.tensor(1.0), flambeau.tensor(2.0))]:
        text = message_of(actual, expected)
        assert text.startswith("expected 2.0, got 1.0; they differ\n  absolutely by 1.0, where")
        assert "relatively by 0.5, where rtol" in text
    assert "relatively by inf" in message_of(1.0, 0.0)


def test_infinities_are_close_to_themselves_only():
    assert_close(flambeau.tensor([INF, -INF]), flambeau.tensor([INF, -INF]))
    message_of(flambeau.tensor([INF, -INF]), flambeau.tensor([INF, INF]))
    message_of(flambeau.tensor([1.0, INF]), flambeau.tensor([1.0, 1.0]), rtol=INF, atol=INF)
    assert_close(INF, INF)
    message_of(INF, -INF)


def test_nan_is_close_to_nothing_unless_that_is_asked_for():
    nans = flambeau.tensor([NAN, 1.0])
    assert "absolutely by nan at (0,)" in message_of(nans, nans)
    assert_close(nans, nans, equal_nan=True)
    message_of(NAN, NAN)
    assert_close(NAN, NAN, equal_nan=True)
    message_of(flambeau.tensor([1.0, 1.0]), nans, equal_nan=True)


def test_shapes_devices_and_dtypes_differ():
    ones = flambeau.ones(2)
    assert message_of(ones, flambeau.ones(2, 1)) == "expected the shape [2, 1], got [2]"
    assert message_of(ones, flambeau.ones(2, device="meta")) == (
        "expected a tensor on meta, got one on cpu"
    )
    assert message_of(ones, ones.double()) == (
        "expected a tensor of flambeau.float64, got one of flambeau.float32"
    )
    assert_close(ones, flambeau.ones(2, device="meta"), check_device=False)
    assert_close(ones, ones.double(), check_dtype=False)
    assert_close(ones, ones.to(flambeau.uint16), check_dtype=False)
    # The looser tolerances count.
    assert_close(ones.double() + 1e-5, ones, check_dtype=False)


def test_on_the_meta_device_there_are_no_elements_to_compare():
    assert_close(flambeau.ones(2, device="meta"), flambeau.zeros(2, device="meta"))
    message_of(flambeau.ones(2, device="meta"), flambeau.zeros(3, device="meta"))


def test_floats_of_8_bits_are_equal_or_not():
    one, other = (flambeau.tensor([1.0, each]).to(flambeau.float8_e5m2) for each in (2.0, 4.0))
    assert_close(one, one)
    assert message_of(one, other) == (
        "1 of 2 elements (50.0%) are not equal, the first of them at (1,)"
    )
    assert "have no tolerances" in message_of(one, one, rtol=1.0, atol=0.0)


def test_the_types_of_numbers_count_unless_that_is_not_asked_for():
    assert message_of(1, 1.0) == "expected 1.0 of <class 'float'>, got 1 of <class 'int'>"
    message_of(True, 1)
    assert_close(1, 1.0, check_dtype=False)
    assert_close(1 + 0j, 1, check_dtype=False)
    assert_close(np.float32(1), 1.0)
    assert_close(1.0 + 1e-8, 1.0)
    message_of(1.0 + 1e-6, 1.0)


def test_bools_have_no_tolerances():
    assert_close(True, np.True_)
    assert message_of(True, False, rtol=2, atol=2) == "expected False, got True"


def test_none_is_close_to_none_only():
    assert_close(None, None)
    assert message_of(None, 1.0) == "expected 1.0, got None"
    assert message_of([1.0], None) == "expected None, got [1.0]"


def test_sequences_and_mappings_are_compared_one_by_one():
    x = flambeau.ones(2)
    assert_close([x, (1.0, {"a": None})], (x, [1.0, OrderedDict(a=None)]))
    assert message_of([x, {"a": [1, 2]}], [x, {"a": [1, 3]}]).startswith(
        "item [1]['a'][1]: expected 3, got 2"
    )
    assert message_of([[x]], [[x, x]]) == "item [0]: a sequence of 1 elements, expected 2"
    assert message_of({"a": 1, "b": 1}, {"a": 1, 2: 1}) == (
        "a mapping without the keys [2] that are expected, and with ['b'] that are not"
    )


def test_form_is_told_of_before_elements():
    with pytest.raises(TypeError, match=r"item \[1\]: str and str cannot be compared: no tensor"):
        assert_close([1.0, "a"], [2.0, "a"])


def test_classes_are_related():
    x = flambeau.ones(2)
    weight = flambeau.nn.Parameter(x)
    assert_close(weight, x)
    assert_close(x, weight)
    with pytest.raises(TypeError, match="Parameter and Tensor cannot be compared: convert"):
        assert_close(weight, x, allow_subclasses=False)
    assert_close(weight, weight, allow_subclasses=False)
    with pytest.raises(TypeError, match="ndarray and Tensor cannot be compared: convert"):
        assert_close(x.numpy(), x)
    with pytest.raises(TypeError, match="Tensor and float"):
        assert_close(x[0], 1.0)


def test_arrays_are_compared_as_tensors():
    array = np.array([1.0, 2.0])
    assert_close(array, array + 1e-9)
    assert_close(flambeau.ones(2).jax(), flambeau.ones(2).jax())
    assert "absolutely by 1.0 at (1,)" in message_of(array, np.array([1.0, 3.0]))
    with pytest.raises(TypeError, match="no tensor can be made"):
        assert_close({1}, {1})


def test_a_message_is_replaced_or_made_of_the_message():
    assert message_of([1], [2], msg="not one") == "not one"
    assert message_of([1], [2], msg=lambda text: f"<{text}>").startswith("<item [0]: expected 2")
    # What does not fit in form has its own.
    assert message_of([1], [1, 2], msg="not one") == "a sequence of 1 elements, expected 2"


def test_layout_and_strides_are_the_same_for_all_tensors_of_a_shape():
    x = flambeau.arange(6).reshape(2, 3)
    assert_close(x.t().t(), x, check_stride=True, check_layout=True)
    assert_close(x.t(), x.t().clone(), check_stride=True, check_layout=True)


def test_tensors_that_require_grad_and_empty_ones_are_compared():
    x = flambeau.ones(2, requires_grad=True)
    assert_close(x * 1, x)
    assert_close(flambeau.ones(0, 2), flambeau.zeros(0, 2))


def test_nothing_is_compiled(monkeypatch):
    # Of a shape that no other test has; with `monkeypatch`, no program comes from the disk.
    array = np.ones((3, 7, 11), np.float32)
    one, other = flambeau.from_numpy(array), flambeau.from_numpy(2 * array)
    events = []

    def listen(event, duration, **facts):
        events.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        assert_close(one, one)
        message_of(one, other)
        assert events == []
        with flambeau.compiler.gears(interpret=False):
            _ = one + other
        assert events
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)


def test_values_that_are_not_known_yet_are_an_error():
    def step(x):
        assert_close(x, x)
        return x

    with pytest.raises(RuntimeError, match="value"):
        flambeau.compile(step, fullgraph=True)(flambeau.ones(2))


def test_the_deprecated_name_has_an_advice():
    with pytest.raises(AttributeError, match=r"use flambeau\.testing\.assert_close"):
        _ = flambeau.testing.assert_allclose
