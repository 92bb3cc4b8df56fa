"""A slice of the comparison of numbers at every run of the tests; `numbers` compares the rest."""

from __future__ import annotations

import re

import pytest

pytest.importorskip("torch", reason="PyTorch is what the numbers are compared with")

from tests.autograd.test_operator_gradients import OPERATORS, ROWS, VIEWS, WITHOUT_A_ROW
from tests.fuzz import number_differences, numbers

# Each stands for a class: what is chosen, summed, measured, rounded once, or special at a point.
SLICE = {
    "selection.maximum, root": "float32",
    "selection.clamp, tensors": "float32",
    "embedding.embedding, padding": "float32",
    "pooling.max_pool1d": "float32",
    "pooling.adaptive_avg_pool2d": "float32",
    "embedding.embedding_bag, max": "float16",
    "reduction.sum, cancelling": "bfloat16",
    "Expand, cancelling": "bfloat16",
    "index_writes.index_add, cancelling": "bfloat16",
    "embedding.embedding_bag, mean, cancelling": "float16",
    "reduction.std, large": "float16",
    "norms.dist, 2.0, large": "float16",
    "norms.renorm, 2.0, large": "float16",
    "distance.cosine_similarity, large": "float16",
    "normalization.normalize, 2.0, large": "float16",
    "special.hypot": "float16",
    "pointwise.exp2": "bfloat16",
    "special.sinc": "bfloat16",
    "activation.gelu": "bfloat16",
    "special.i0": "float32",
    "powers.power": "float32",
    "powers.special_power, 0.5": "complex64",
    "pointwise.sqrt": "complex64",
    "pointwise.asin": "complex64",
    "pointwise.acos": "complex64",
    "pointwise.asinh": "complex64",
    "pointwise.acosh": "complex64",
    "complex_numbers.angle": "complex64",
    "attention.scaled_dot_product_attention": "bfloat16",
    "special.logaddexp": "float32",
    "regression_loss.huber_loss, none": "float32",
    "norms.vector_norm, 3.0": "float32",
    "matrix_functions.matrix_exp": "float32",
    "factorization.eigvals, large": "float32",
    "recurrent.cell, rnn_relu edges": "float32",
    "normalization.normalize, 1.0": "float32",
    "pooling.adaptive_max_pool": "float32",
    "special.logaddexp2": "float32",
    "powers.special_power, -0.5": "float32",
}


def test_a_slice_agrees() -> None:
    cases = {each.name: each for each in numbers.cases()}
    found = [each for name, dtype in SLICE.items() for each in numbers.compared(cases[name], dtype)]
    assert not found, "\n".join(f"{each.case}, {each.where}: {each.text}" for each in found)


#: Operators of the gradient tables that are not compared, and why.
WITHOUT_A_CASE = {
    "many.split_to_shapes": "only vector_to_parameters uses it, without a gradient",
    "factorization.orthonormal_columns": "only nn.init.orthogonal_ uses it, without a gradient",
}


def test_every_differentiable_operator_has_a_case() -> None:
    differentiable = {
        name for name, each in OPERATORS.items() if each.kernel_options["differentiable"]
    }
    compared = {each.operator for each in numbers.cases()}
    wanted = differentiable | VIEWS | {row.operator for row in ROWS}
    assert sorted(wanted - compared - set(WITHOUT_A_ROW)) == sorted(WITHOUT_A_CASE)


def test_a_case_that_runs_another_operator_is_told() -> None:
    (case,) = (each for each in numbers.cases() if each.name == "activation.relu")
    found = numbers.compared(case._replace(operator="activation.silu"), "float32")
    assert [each.where for each in found] == ["operator"]


def test_every_difference_is_about_some_case() -> None:
    listed = list(numbers.cases())
    assert len({each.name for each in listed}) == len(listed)
    unused = [
        difference
        for difference in number_differences.DIFFERENCES
        if not any(
            re.fullmatch(difference.cases, case.name)
            and any(re.match(difference.dtypes, dtype) for dtype in case.dtypes)
            for case in listed
        )
    ]
    assert not unused


def test_a_difference_explains_its_own_kind_of_element_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    difference = number_differences.Difference(
        r"reduction\.sum", "gradient", "nan for number", "inf", "a reason", "float32"
    )
    monkeypatch.setattr(number_differences, "DIFFERENCES", [difference])
    element = ("reduction.sum", "gradient 0, plain", "float32", "nan for number", {"inf", "0"})
    assert number_differences.difference_of(*element) is difference
    others = ("reduction.sum, all", "value 0", "float64", "number for number", {"nan", "0"})
    for place, other in enumerate(others):
        changed = (*element[:place], other, *element[place + 1 :])
        assert number_differences.difference_of(*changed) is None  # type: ignore[arg-type]


def test_a_planted_defect_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    (case,) = (each for each in numbers.cases() if each.name == "activation.relu")
    right = numbers.flambeau.nn.functional.relu
    monkeypatch.setattr(numbers.flambeau.nn.functional, "relu", lambda x: right(x) + (x == 2))
    assert [each.where for each in numbers.compared(case, "float32")] == ["value 0"]
