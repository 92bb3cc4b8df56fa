"""Static arguments of the wrong type are refused, and leave nothing behind."""

from __future__ import annotations

from types import FunctionType
from typing import Annotated, Any, TypeAlias

import pytest

import flambeau
import flambeau.nn.functional as F
from flambeau.core.kernels.kinds import LISTED, SIZES, Array, check_of, kinds_of
from flambeau.core.operators.op import op
from flambeau.core.support import dtype as dtypes  # noqa: F401 (annotations below name it)

X = flambeau.tensor([[1.0, -2.0], [0.5, 3.0]])

Sizes: TypeAlias = Annotated[int | tuple[int, ...], SIZES]
Listed: TypeAlias = Annotated[tuple[int, ...], LISTED]


def check_for(annotation):
    """The check of a parameter with an annotation."""

    def declared(size):
        """As an operator is."""

    declared.__annotations__["size"] = annotation
    return check_of(kinds_of(declared, "size"))


@pytest.mark.parametrize(
    ("annotation", "taken", "refused"),
    [
        ("int", (1, -1), (1.0, True, "1", None, (1,))),
        ("int | None", (1, None), (1.0, True)),
        ("float", (1, 1.5, True), ("1", None, 1j, (1.0,))),
        ("Sizes", (1, None, (0, 1)), (1.0, (0, 1.0), (True,), "a")),
        ("Sizes | None", (2, (2, 3), None), (2.0, "a")),
        ("Sizes | str", (2, (2, 3), "same"), (2.0, (1.5, 2))),
    ],
)
def test_types(annotation, taken, refused):
    check = check_for(annotation)
    assert check is not None
    for value in taken:
        check("pool", "size", value)
    for value in refused:
        with pytest.raises(TypeError, match=rf"pool\(\): size must be .*{type(value).__name__}"):
            check("pool", "size", value)


@pytest.mark.parametrize("annotation", ["object", "Any", "float | dtypes.dtype", "tuple[str, ...]"])
def test_what_may_be_of_any_type_or_of_several(annotation):
    assert check_for(annotation) is None


@pytest.mark.parametrize("annotation", ["Sises", "X", "list[int]", None])
def test_an_annotation_that_names_no_kind_is_refused_at_the_declaration(annotation):
    with pytest.raises(
        TypeError, match=r"'size' is annotated .*, which is not a known kind of parameter"
    ):
        check_for(annotation)


@pytest.mark.parametrize("transform", [flambeau.fft.fft, flambeau.fft.rfft, flambeau.fft.irfft])
def test_sizes_of_transforms_are_checked(transform):
    with pytest.raises(TypeError, match="must be"):
        transform(X, 2.0)


@pytest.mark.parametrize(
    ("annotation", "right", "wrong"),
    [
        ("bool", True, 1),
        ("str", "sum", 1.5),
        ("str | None", None, 1),
        ("dtypes.dtype | None", flambeau.float32, "float32"),
        ("Listed", (3,), 3),
    ],
)
def test_flags_words_and_dtypes_are_checked(annotation: str, right: Any, wrong: Any) -> None:
    check = check_for(annotation)
    assert check is not None
    check("sum", "argument", right)
    with pytest.raises(TypeError, match=r"sum\(\): argument must be .*, got"):
        check("sum", "argument", wrong)


@pytest.mark.parametrize("wrong", [1.0, True])
@pytest.mark.parametrize("name", ["softmax", "sum", "cumsum", "argmax"])
def test_a_refused_argument_does_not_stay_in_place_of_its_equal(name, wrong):
    function = getattr(flambeau, name)
    function.op.kernels.clear()
    with pytest.raises(TypeError, match=r"dim must be an int"):
        function(X, wrong)
    assert function(X, 1).shape[0] == 2


@pytest.mark.parametrize("value", [None, 1.5, "a", [1.0]])
@pytest.mark.parametrize("function", [F.relu, F.silu, F.hardswish, F.gelu])
def test_what_is_no_tensor(function, value):
    with pytest.raises(TypeError, match=rf"{function.__name__}\(\).*Tensor"):
        function(value)


def _clumsy(input: Array, other: Array | None = None, place: object = 0) -> Array:
    """An operator that checks nothing."""
    return input + [1.0, 2.0][place] + other.ndim  # type: ignore[index, union-attr]


# As if it were one of the package's own: what other code raises is passed on as it is.
_own = FunctionType(
    _clumsy.__code__, {"__name__": "flambeau.clumsy", "Array": Array}, "clumsy", (None, 0)
)
_own.__annotations__ = _clumsy.__annotations__
clumsy = op(_own)


@pytest.mark.parametrize(
    ("args", "kind"),
    [
        ((X, X, 5), RuntimeError),  # an IndexError of Python
        ((X, None), RuntimeError),  # an AttributeError
        ((X, X, "a"), TypeError),
    ],
)
def test_accidents_inside_an_operator_are_told_with_its_name(args, kind):
    with pytest.raises(kind, match=r"clumsy\(\) cannot take operands float32\[2, 2\]"):
        clumsy(*args)
    with pytest.raises(kind, match=r"clumsy\(\) cannot take operands float32\[2, 2\]"):
        clumsy(*(each.to("meta") if each is X else each for each in args))
