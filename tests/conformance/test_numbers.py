"""Where PyTorch takes Python numbers instead of tensors, and where it raises TypeError."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch

import flambeau
from tests.conformance.test_namespace import public, space

# Without tensors among their arguments, or with an effect on the process.
OTHER = set(
    """
    compile load save seed manual_seed set_rng_state use_deterministic_algorithms
    set_default_tensor_type set_default_dtype set_default_device set_printoptions
    set_deterministic_debug_mode set_float32_matmul_precision set_flush_denormal set_num_threads
    set_num_interop_threads set_grad_enabled set_autocast_enabled set_autocast_dtype
    set_autocast_cache_enabled range
    """.split()  # noqa: SIM905
)
# t for a tensor, n for a number.
KINDS = [
    kinds for count in (1, 2, 3) for kinds in itertools.product("tn", repeat=count) if "n" in kinds
]
# Combinations that PyTorch refuses and that mean what one expects here.
MORE = {
    **dict.fromkeys(
        ["resolve_conj", "resolve_neg", "result_type", "promote_types"], "not operators"
    ),
    "poisson": "the second argument is a generator, which meta tensors do not draw from",
    "rsub": "the factor may be a tensor",
    "subtract": "another name of `sub`, with its deprecated signature",
    **dict.fromkeys(["nan_to_num", "nan_to_num_"], "a 0-d tensor is a number too"),
    **dict.fromkeys(
        ["alpha_dropout", "alpha_dropout_", "dropout", "dropout_", "unique", "vander",
         "linalg.vander", "norm_except_dim", "nn.functional.alpha_dropout",
         "nn.functional.dropout", "nn.functional.dropout3d",
         "nn.functional.feature_alpha_dropout"],
        "numbers of another kind than the documented one",
    ),
    **dict.fromkeys(
        ["binary_cross_entropy_with_logits", "nn.functional.binary_cross_entropy_with_logits",
         "nn.functional.poisson_nll_loss"],
        "a number counts for every element",
    ),
}  # fmt: skip
# Combinations that PyTorch takes.
FEWER = {
    **dict.fromkeys(["add", "sub", "subtract"], "the factor has a name"),
    "nn.functional.elu_": "the other factors are SELU's",
}  # fmt: skip
SPACES = ["", "linalg", "special", "nn.functional"]


NO_OPERATORS = {"detach_", "to_dlpack"}
# A number has no such attribute: true, but no help.
_UNEXPLAINED = ("TypeError", "AttributeError")


def functions(path: str) -> Iterator[str]:
    theirs, ours = space(torch, path), space(flambeau, path)
    for name in sorted(public(torch, path)):
        function = getattr(theirs, name, None)
        if name in OTHER or name.startswith("is_") or isinstance(function, type):
            continue
        if callable(function) and callable(getattr(ours, name, None)):
            yield name


def outcome(lib: Any, function: Any, kinds: tuple[str, ...]) -> str:
    # What operators refuse they refuse on the meta device too, without compiling anything.
    where = "cpu" if lib is torch else "meta"
    values = [lib.tensor([0.5, 0.25], device=where) if k == "t" else 0.5 for k in kinds]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            function(*values)
        except Exception as error:  # noqa: BLE001
            return type(error).__name__
    return "ok"


@pytest.mark.parametrize("path", SPACES)
def test_numbers_are_taken_where_pytorch_takes_them(path: str) -> None:
    more, fewer, other = {}, {}, {}
    for name in functions(path):
        full = f"{path}.{name}" if path else name
        theirs, ours = (getattr(space(lib, path), name) for lib in (torch, flambeau))
        for kinds in KINDS:
            expected, found = outcome(torch, theirs, kinds), outcome(flambeau, ours, kinds)
            if expected == "TypeError" and found == "ok" and full not in MORE:
                more.setdefault(full, []).append("".join(kinds))
            if expected == "ok" and found == "TypeError" and full not in FEWER:
                fewer.setdefault(full, []).append("".join(kinds))
            is_operator = path != "nn.functional" and name not in NO_OPERATORS
            if is_operator and kinds == ("n",) and (expected, found) == _UNEXPLAINED:
                other[full] = found
    assert more == {}
    assert fewer == {}
    assert other == {}


@pytest.mark.parametrize(
    ("compute", "message"),
    [
        (lambda x: flambeau.maximum(x, 2), r"maximum\(\): other must be a Tensor, got a int64"),
        (lambda x: flambeau.maximum(1, x), r"maximum\(\): input must be a Tensor"),
        (lambda x: x.atan2(1.0), r"atan2\(\): other must be a Tensor, got a float64 number"),
        (lambda x: flambeau.lt(2, x), r"lt\(\): input must be a Tensor"),
        (lambda x: x.clamp(x, 1), r"clamp\(\): min and max must both be numbers or both"),
        (lambda x: flambeau.bmm(x, 2.0), r"bmm\(\): mat2 must be a Tensor"),
        (lambda x: flambeau.transpose(2, 0, 1), r"transpose\(\): input must be a Tensor, got int"),
        (lambda x: flambeau.isin(2, 3), r"isin\(\): elements or test_elements must be a Tensor"),
        (lambda x: flambeau.polygamma(0.5, x), r"polygamma\(\): n must be an int"),
    ],
)  # fmt: skip
def test_the_message_names_the_argument(compute: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        compute(flambeau.ones(2))


def test_operators_still_take_numbers_on_both_sides() -> None:
    x = flambeau.tensor([1.0, 2.0, 3.0])
    assert (x < 2).tolist() == [True, False, False]
    assert (x == 2).tolist() == [False, True, False]
    assert (5 % x).tolist() == [0, 1, 2]
    assert (2 - x).tolist() == [1, 0, -1]
    assert flambeau.rsub(x, 2, 2).tolist() == [0, -2, -4]


NUMBERS: list[Any] = [True, 7, -2.5, 1j]


@pytest.mark.parametrize(
    "compute",
    [
        lambda lib, x, y: lib.add(x, y),
        lambda lib, x, y: lib.subtract(x, y, alpha=2),
        lambda lib, x, y: lib.multiply(x, y),
        lambda lib, x, y: lib.true_divide(x, y),
        lambda lib, x, y: lib.div(x, y, rounding_mode="trunc"),
        lambda lib, x, y: lib.floor_divide(x, y),
        lambda lib, x, y: lib.add(x, y) + lib.ones((), dtype=lib.int8),
    ],
)
def test_sums_and_products_of_two_numbers_are_tensors(compute: Any) -> None:
    for x, y in itertools.product(NUMBERS, repeat=2):
        _check_same(lambda lib, x=x, y=y: compute(lib, x, y), (RuntimeError, NotImplementedError))


@pytest.mark.parametrize("dtype", ["int64", "float32", "float16"])
def test_clamp_takes_a_tensor_without_dimensions_for_a_number(dtype: str) -> None:
    bounds: list[Any] = [
        (0, [2, "int64"]), ([1.5, "float64"], 3), (0.5, [2, "int32"]), ([True, "bool"], 3),
        ([1, "int8"], [2.5, "float64"]), ([1.5, "float64"], None),
    ]  # fmt: skip
    for low, high in bounds:

        def clamped(lib: Any, low: Any = low, high: Any = high) -> Any:
            low, high = (
                lib.tensor(each[0], dtype=getattr(lib, each[1])) if isinstance(each, list) else each
                for each in (low, high)
            )
            return lib.arange(5).to(getattr(lib, dtype)).clamp(low, high)

        _check_same(clamped, ())


def _check_same(compute: Any, refusals: tuple[type[Exception], ...]) -> None:
    try:
        expected = compute(torch)
    except refusals:
        with pytest.raises(refusals):
            compute(flambeau)
        return
    found = compute(flambeau)
    assert str(found.dtype).split(".")[1] == str(expected.dtype).split(".")[1]
    assert found.tolist() == expected.tolist()
