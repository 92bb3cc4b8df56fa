"""Elementwise operators against PyTorch: values, dtypes, gradients at kinks, nodes, errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np

from tests.conformance.operators import Row, compare, table

NAN, INF = float("nan"), float("inf")
RANDOM = np.random.default_rng(0)


def floats(*values: float, dtype: Any = np.float32) -> np.ndarray:
    return np.array(values, dtype)


A = RANDOM.standard_normal((2, 3)).astype(np.float32)
B = RANDOM.standard_normal((2, 3)).astype(np.float32)
WHOLE = np.array([[-7, 3, 0], [5, -2, 12]])
DIVISORS = np.array([[2, -3, 5], [-4, 1, 7]])
COMPLEX = (A + 1j * B).astype(np.complex64)
FLAGS = np.array([[True, False, True], [False, True, True]])

# The domain in which each function of one number is compared, and its gradient too.
ANY, POSITIVE, UNIT, ABOVE_ONE = A, np.abs(A) + 0.1, np.tanh(A), np.abs(A) + 1.1
UNARY = {
    "abs": ANY, "acos": UNIT, "acosh": ABOVE_ONE, "angle": ANY, "asin": UNIT, "asinh": ANY,
    "atan": ANY, "atanh": UNIT, "ceil": ANY, "cos": ANY, "cosh": ANY, "deg2rad": ANY,
    "digamma": POSITIVE, "erf": ANY, "erfc": ANY, "erfinv": UNIT, "exp": ANY, "exp2": ANY,
    "expm1": ANY, "floor": ANY, "frac": ANY, "lgamma": POSITIVE, "log": POSITIVE,
    "log10": POSITIVE, "log1p": POSITIVE, "log2": POSITIVE, "logit": np.abs(UNIT),
    "nan_to_num": ANY, "neg": ANY, "positive": ANY, "rad2deg": ANY, "reciprocal": POSITIVE,
    "round": ANY * 3, "rsqrt": POSITIVE, "sgn": ANY, "sigmoid": ANY, "sign": ANY, "sin": ANY,
    "sinc": ANY, "sinh": ANY, "sqrt": POSITIVE, "square": ANY, "tan": ANY, "tanh": ANY,
    "trunc": ANY * 3,
}  # fmt: skip
PREDICATES = [
    "isfinite",
    "isinf",
    "isnan",
    "isneginf",
    "isposinf",
    "isreal",
    "logical_not",
    "signbit",
]
SPECIAL = floats(0, 1, -1, 0.5, 2, NAN, INF, -INF)
# JAX's derivative there has another limit, or none: the values are compared alone.
VALUES_ONLY = {"digamma", "lgamma"}


def call(name: str, *args: Any, **kwargs: Any) -> Callable[..., Any]:
    return lambda lib, *tensors: getattr(lib, name)(*tensors, *args, **kwargs)


def unary_rows() -> Iterator[Row]:
    for name, domain in UNARY.items():
        yield Row(f"{name}", call(name), (domain,), 2e-5)
        yield Row(
            f"{name} at special values",
            call(name),
            (SPECIAL,),
            2e-5,
            gradient=name not in VALUES_ONLY,
        )
        yield Row(f"{name} of integers", call(name), (WHOLE,), 2e-5)
        yield Row(f"{name} of bools", call(name), (FLAGS,), 2e-5)
        # PyTorch refuses the gradient of a complex nan_to_num.
        yield Row(
            f"{name} of complex numbers",
            call(name),
            (COMPLEX,),
            2e-5,
            gradient=name != "nan_to_num",
        )
    for name in PREDICATES:
        for kind, values in {"floats": SPECIAL, "integers": WHOLE, "bools": FLAGS}.items():
            yield Row(f"{name} of {kind}", call(name), (values,))


@table(unary_rows())
def test_functions_of_one_number(row: Row) -> None:
    compare(row)


# Two operands, of which the second may be a number, on either side.

X = floats(2, 3, -4, 0, 5, 1.5)
Y = floats(1, 3, 2, 0, -2, -1.5)
ONE = floats(3)[0]
BINARY = [
    "add", "sub", "mul", "div", "maximum", "minimum", "fmax", "fmin", "fmod", "remainder", "atan2",
    "hypot", "copysign", "logaddexp", "logaddexp2", "xlogy", "pow", "eq", "ne", "lt", "le", "gt",
    "ge", "logical_and", "logical_or", "logical_xor", "floor_divide", "heaviside", "rsub",
    "float_power",
]  # fmt: skip
# No gradient is defined, or PyTorch's is NaN at one of the points.
WITHOUT_GRADIENT = {"floor_divide", "heaviside", "hypot", "xlogy", "pow", "float_power"}
# PyTorch has one node for tensors and another for numbers.
ONE_NODE = {"remainder", "fmod", "copysign", "xlogy", "rsub"}
OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda x, y: x + y, "-": lambda x, y: x - y, "*": lambda x, y: x * y,
    "/": lambda x, y: x / y, "//": lambda x, y: x // y, "%": lambda x, y: x % y,
    "**": lambda x, y: x**y, "==": lambda x, y: x == y, "!=": lambda x, y: x != y,
    "<": lambda x, y: x < y, "<=": lambda x, y: x <= y, ">": lambda x, y: x > y,
    ">=": lambda x, y: x >= y, "&": lambda x, y: x & y, "|": lambda x, y: x | y,
    "^": lambda x, y: x ^ y, "<<": lambda x, y: x << y, ">>": lambda x, y: x >> y,
}  # fmt: skip
# The names differ: `2 / x` is a product in PyTorch, `2 // x` and `2 % x` have no gradient there.
REFLECTED_NODES = {"/", "//", "%"}


def binary_rows() -> Iterator[Row]:
    for name in BINARY:
        gradient = name not in WITHOUT_GRADIENT
        same = name not in ONE_NODE
        yield Row(name, call(name), (X, Y), 1e-5, gradient, same)
        yield Row(f"{name} of bools", call(name), (FLAGS, FLAGS[::-1]))
        yield Row(f"{name} of shapes that do not broadcast", call(name), (X, B))
        if name not in ("pow", "floor_divide"):  # integers to negative powers, divided by zero
            yield Row(f"{name} of integers", call(name), (WHOLE, DIVISORS))
    for name in ("maximum", "minimum", "fmax", "fmin", "atan2"):
        yield Row(
            f"{name} of NaN", call(name), (floats(NAN, 1, NAN), floats(1, NAN, NAN)), gradient=False
        )


@table(binary_rows())
def test_functions_of_two(row: Row) -> None:
    compare(row)


def operator_rows() -> Iterator[Row]:
    for name, compute in OPERATORS.items():
        apply = applied(compute)
        divisors = np.abs(DIVISORS) % 3 if name in ("<<", ">>") else np.abs(DIVISORS)
        pairs = {
            "floats": (np.abs(X) + 0.5, Y),
            "integers": (WHOLE, divisors),
            "broadcast floats": (A, B[0]),
        }
        for kind, pair in pairs.items():
            # A tensor as divisor has a node of its own in PyTorch.
            row = Row(f"tensor {name} tensor of {kind}", apply, pair, 1e-5)
            yield row._replace(gradient=name != "//", node=name != "%")
        for number in (2, 2.5) if name == "**" else (2, 2.5, True):
            after, before = with_number(compute, number), number_with(compute, number)
            row = Row(f"tensor {name} {number} of floats", after, (A,), 1e-5)
            yield row._replace(gradient=name not in ("//", "**"))
            yield Row(f"tensor {name} {number} of integers", after, (WHOLE,))
            row = Row(f"{number} {name} tensor of floats", before, (Y + 4,), 1e-5)
            yield row._replace(gradient=name not in ("//", "%"), node=name not in REFLECTED_NODES)
            yield Row(f"{number} {name} tensor of integers", before, (np.abs(DIVISORS),))
    yield Row("tensor - bools", lambda lib, x: x - x, (FLAGS,))
    yield Row("negative of bools", lambda lib, x: -x, (FLAGS,))
    yield Row("~ of floats", lambda lib, x: ~x, (X,))
    yield Row("~ of integers", lambda lib, x: ~x, (WHOLE,))
    yield Row("shift too far", lambda lib, x: (x << 70, x >> 70, x << -1, x >> -1), (WHOLE,))
    yield Row("abs()", lambda lib, x: abs(x), (X,))
    yield Row("+tensor", lambda lib, x: +x, (X,))
    yield Row("comparison of complex numbers", lambda lib, x: x < x, (COMPLEX,))


def applied(compute: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    return lambda lib, x, y: compute(x, y)


def with_number(compute: Callable[[Any, Any], Any], number: Any) -> Callable[..., Any]:
    return lambda lib, x: compute(x, number)


def number_with(compute: Callable[[Any, Any], Any], number: Any) -> Callable[..., Any]:
    return lambda lib, x: compute(number, x)


@table(operator_rows())
def test_python_operators(row: Row) -> None:
    compare(row)


def special_rows() -> Iterator[Row]:
    yield Row("add alpha", call("add", alpha=2.5), (A, B))
    yield Row("add integers alpha", call("add", alpha=3), (WHOLE, WHOLE))
    yield Row("add integers alpha of float", call("add", alpha=0.5), (WHOLE, WHOLE))
    yield Row("sub alpha", call("sub", alpha=2), (A, B[0]))
    yield Row("sub number alpha", call("sub", 3, alpha=2), (A,))
    yield Row("rsub alpha", call("rsub", 3, alpha=2), (A,))
    for mode in (None, "trunc", "floor", "ceil"):
        # PyTorch names the node by the overload, here that with a rounding mode.
        divided = Row(f"div {mode}", call("div", rounding_mode=mode), (X, Y + 0.25))
        yield divided._replace(node=mode is not None)
        yield Row(f"div {mode} of integers", call("div", rounding_mode=mode), (WHOLE, DIVISORS))
    ends = (floats(5, -5, 5, -5, NAN, INF, 7), floats(INF, INF, -INF, 0, 1, 1, 0))
    yield Row("floor_divide at the ends", call("floor_divide"), ends, gradient=False)
    yield Row("remainder at the ends", call("remainder"), ends, gradient=False)
    yield Row(
        "floor_divide that rounds up",
        call("floor_divide", 0.1),
        (floats(1, 2, 0.3),),
        gradient=False,
    )
    for exponent in (0, 1, 2, 3, 4, 0.5, -0.5, -1, -2, 1.7, 2.0):
        yield Row(f"power {exponent}", call("pow", exponent), (np.abs(A) + 0.2,), 1e-5)
        yield Row(f"power {exponent} at 0", call("pow", exponent), (floats(0, 1),), 1e-5)
        yield Row(f"power {exponent} of integers", call("pow", exponent), (WHOLE,), 1e-5)
    yield Row("power of tensors", call("pow"), (np.abs(A) + 0.2, B), 1e-5)
    yield Row(
        "power of tensors at kinks",
        call("pow"),
        (floats(0, 0, -2, 2), floats(0, 1, 2, 0)),
        gradient=False,
    )
    yield Row("power of integers", call("pow"), (WHOLE, np.array([[2, 3, 0], [-1, 0, -2]])))
    yield Row("power of bools", call("pow", 2), (FLAGS,))
    yield Row("number to the power", lambda lib, x: lib.pow(2, x), (A,))
    yield Row("in place", in_place, (A, B))
    yield Row("integers in place with a float", lambda lib, x: x.add_(1.5), (WHOLE,))
    yield Row("integers divided in place", lambda lib, x: x.div_(2), (WHOLE,))
    yield Row("in place that would grow", lambda lib, x, y: x.mul_(y), (WHOLE[0], WHOLE))
    yield Row("addcmul", call("addcmul", value=0.5), (A, B, A[0]))
    yield Row("addcdiv", call("addcdiv", value=2), (A, B, np.abs(A) + 1), 1e-5)
    yield Row("addcdiv of integers", call("addcdiv"), (WHOLE, WHOLE, DIVISORS))
    for weight in (0.25, 0.75, 1):
        yield Row(f"lerp {weight}", call("lerp", weight), (A, B))
    yield Row("lerp of a tensor", call("lerp"), (A, B, np.abs(UNIT)), node=False)
    yield Row("lerp of two dtypes", call("lerp", 0.5), (A, B.astype(np.float64)))
    yield Row("lerp of integers", call("lerp", 0.5), (WHOLE, WHOLE))
    yield Row("round decimals", call("round", decimals=1), (A * 10,))
    yield Row("round tens", call("round", decimals=-1), (A * 10,))
    yield Row("round decimals of integers", call("round", decimals=1), (WHOLE,))
    yield Row("polygamma", lambda lib, x: lib.polygamma(1, x), (POSITIVE,), 1e-5)
    yield Row("polygamma of negative order", lambda lib, x: lib.polygamma(-1, x), (POSITIVE,))
    yield Row("logit eps", call("logit", eps=0.1), (floats(0.05, 0.1, 0.5, 0.9, 0.95),), 1e-5)
    yield Row("nan_to_num numbers", call("nan_to_num", 1.0, posinf=2.0, neginf=-3.0), (SPECIAL,))
    yield Row("xlogy of a number", call("xlogy", 2.0), (A,), node=False)
    yield Row("number xlogy", lambda lib, x: lib.xlogy(2.0, x), (POSITIVE,), node=False)
    yield Row("atan2 at the origin", call("atan2"), (floats(0, 0, 1), floats(0, 1, 0)))
    yield Row("copysign of a number", call("copysign", -1.0), (floats(0, -0.0, 2, -2),), node=False)
    yield Row("shared maximum", call("maximum"), (floats(1, 2), floats(1, 3)))
    yield Row("heaviside of dtypes", call("heaviside"), (X, X.astype(np.float64)))
    yield Row("heaviside backward", call("heaviside"), (X, X))
    yield Row("heaviside, one of two", lambda lib, x: lib.heaviside(x, lib.ones_like(x)), (X,))
    yield Row("floor_divide backward", call("floor_divide"), (X, Y))
    yield Row("complex", call("complex"), (A, B[0]))
    yield Row("complex of dtypes", call("complex"), (A, B.astype(np.float64)))
    yield Row("polar", call("polar"), (np.abs(A), B))
    yield Row("conj", lambda lib, z: z.conj() * z, (COMPLEX,))
    yield Row("conj of floats", lambda lib, x: x.conj() * x, (A,))
    yield Row("angle of complex numbers", call("angle"), (COMPLEX,))
    yield Row("sum of dtypes 0-d", lambda lib, x, y: x * y, (A, np.array(2.0)))
    yield Row("half times number", call("mul", 0.1), (A.astype(np.float16),))
    yield Row("half divided by number", call("div", 0.3), (A.astype(np.float16),))
    yield Row("bfloat16 times number", call("mul", 0.1), (A.astype(ml_dtypes.bfloat16),))
    yield Row("second names", second_names, (A, B))


def in_place(lib: Any, x: Any, y: Any) -> Any:
    z = x * 1
    z += y
    z -= 2
    z *= y
    z /= 3
    z.add_(y, alpha=2).sub_(y, alpha=0.5).clamp_(-1, 1).sin_()
    z **= 2
    return z


def second_names(lib: Any, x: Any, y: Any) -> Any:
    return (
        lib.subtract(x, y),
        lib.multiply(x, y),
        lib.divide(x, y),
        lib.true_divide(x, y),
        lib.negative(x),
        lib.absolute(x),
        lib.arctan(x),
        lib.arctan2(x, y),
        lib.arcsinh(x),
        lib.clip(x, -1, 1),
        lib.fix(x),
        lib.greater(x, y),
        lib.greater_equal(x, y),
        lib.less(x, y),
        lib.less_equal(x, y),
        lib.not_equal(x, y),
        x.multiply(y),
        x.arctan(),
        x.clone().negative_(),
        x.clone().clip_(0, 1),
        x.absolute(),
    )


@table(special_rows())
def test_arguments_and_kinks(row: Row) -> None:
    compare(row)


def selection_rows() -> Iterator[Row]:
    at_bounds = floats(-1, 0, 0.5, 1, 2, NAN)
    yield Row("clamp", call("clamp", 0, 1), (at_bounds,))
    yield Row("clamp min", call("clamp", min=0), (at_bounds,))
    yield Row("clamp max", call("clamp", max=1), (at_bounds,))
    yield Row("clamp crossed", call("clamp", 2, 1), (at_bounds,))
    yield Row("clamp of nothing", call("clamp"), (at_bounds,))
    yield Row("clamp integers", call("clamp", -2, 4), (WHOLE,))
    yield Row("clamp integers by a float", call("clamp", max=1.5), (WHOLE,))
    yield Row(
        "clamp by tensors",
        call("clamp"),
        (
            floats(-1, 0, 0.5, 1, 2, NAN, 0, 3, 1),
            floats(0, 0, 0, 0, 0, 0, 3, 3, NAN),
            floats(1, 1, 1, 1, 1, 1, 2, 2, 2),
        ),
        node=False,
    )
    yield Row("clamp_min", call("clamp_min", 0), (at_bounds,))
    yield Row("clamp_max", call("clamp_max"), (at_bounds, at_bounds * 0 + 1), node=False)
    yield Row("where", lambda lib, x, y: lib.where(x > y, x, y), (A, B))
    yield Row("where broadcast", lambda lib, x, y: lib.where(x > 0, x, y), (A, B[0]))
    yield Row("where number", lambda lib, x: lib.where(x > 0, x, 0), (A,))
    yield Row("where numbers", lambda lib, x: lib.where(x > 0, 1, 2.0), (A,))
    yield Row("where of integers", lambda lib, x: lib.where(x, 1, 2), (WHOLE,))
    yield Row("where of bytes", lambda lib, x: lib.where(x, 1, 2), (FLAGS.astype(np.uint8),))
    yield Row("where alone", lambda lib, x: lib.where(x > 0), (A,))
    yield Row("where of one", lambda lib, x: lib.where(x > 0, x), (A,))
    yield Row("where method", lambda lib, x: x.where(x > 0, -x), (A,))
    yield Row(
        "isclose", call("isclose"), (floats(1, INF, NAN, 0), floats(1 + 1e-6, INF, NAN, 1e-9))
    )
    yield Row("isclose equal_nan", call("isclose", equal_nan=True), (SPECIAL, SPECIAL))
    yield Row("isclose tolerance", call("isclose", rtol=0.1, atol=0.0), (A, A * 1.05))
    yield Row("isclose of integers", call("isclose", atol=1), (WHOLE, WHOLE + 1))
    yield Row("isclose of dtypes", call("isclose"), (A, A.astype(np.float64)))
    yield Row("allclose", lambda lib, x: lib.tensor([lib.allclose(x, x), lib.equal(x, x[0])]), (A,))
    yield Row("equal to a number", lambda lib, x: lib.equal(x, 1), (A,))
    yield Row("equal to None", lambda lib, x: lib.tensor([x == None, x != "a"]), (A,))  # noqa: E711
    yield Row("bitwise", lambda lib, x, y: (x & y, x | y, x ^ y, ~x), (WHOLE, DIVISORS))
    yield Row("bitwise of bools", lambda lib, x: (x & x, x | True, x ^ x, ~x), (FLAGS,))
    yield Row("bitwise of floats", lambda lib, x: x & x, (A,))


@table(selection_rows())
def test_selection(row: Row) -> None:
    compare(row)


def further_rows() -> Iterator[Row]:
    yield Row("gcd", call("gcd"), (WHOLE, DIVISORS))
    yield Row("gcd of floats", call("gcd"), (A, B))
    yield Row("lcm", call("lcm"), (WHOLE, DIVISORS))
    # PyTorch's gradient is 0 for negative exponents.
    yield Row("ldexp", call("ldexp"), (A, np.abs(DIVISORS)))
    yield Row("ldexp of integers", call("ldexp"), (WHOLE, DIVISORS))
    yield Row("ldexp of halves", call("ldexp"), (A.astype(np.float16), np.abs(DIVISORS)))
    yield Row("frexp", call("frexp"), (floats(3, -0.5, 0, 1e-30, 1e30),))
    yield Row("frexp of integers", call("frexp"), (WHOLE,))
    yield Row("nextafter", call("nextafter"), (X, Y))
    yield Row("nextafter of equals", call("nextafter"), (X, X))
    yield Row("nextafter of integers", call("nextafter"), (WHOLE, DIVISORS))
    yield Row("i0", call("i0"), (A,), 1e-5)
    yield Row("i0 of integers", call("i0"), (WHOLE,), 1e-5)
    yield Row("igamma", lambda lib, x, y: lib.igamma(x.detach(), y), (POSITIVE, ABOVE_ONE), 1e-5)
    yield Row("igammac", lambda lib, x, y: lib.igammac(x.detach(), y), (POSITIVE, ABOVE_ONE), 1e-5)
    yield Row("igamma of integers", call("igamma"), (WHOLE, DIVISORS))
    yield Row("mvlgamma", call("mvlgamma", 2), (ABOVE_ONE,), 1e-5)
    yield Row("mvlgamma of dimension 0", call("mvlgamma", 0), (ABOVE_ONE,))
    yield Row("polygamma method", lambda lib, x: x.polygamma(2), (POSITIVE,), 1e-4)
    for invert in (False, True):
        yield Row(f"isin {invert}", call("isin", invert=invert), (WHOLE, DIVISORS))
    yield Row("isin of dtypes", call("isin"), (SPECIAL, np.array([1, 2])))
    yield Row("isin numbers", lambda lib, x: (lib.isin(x, 3), lib.isin(3, x)), (WHOLE,))
    yield Row("isin bools", call("isin"), (FLAGS, FLAGS))
    yield Row("diff", call("diff"), (A,))
    yield Row("diff twice along 0", call("diff", 2, 0), (DIVISORS * 1.0,))
    yield Row("diff bools", call("diff"), (FLAGS,))
    yield Row("diff with ends", lambda lib, x: x.diff(prepend=x[:, :1], append=x), (A,), node=False)
    yield Row("diff of 0-d", call("diff"), (np.array(1.0),))
    yield Row("diff of order -1", call("diff", -1), (A,))
    yield Row("trapezoid", call("trapezoid"), (A,), 1e-5)
    yield Row("trapezoid dx", call("trapezoid", dx=0.5, dim=0), (A,), 1e-5)
    yield Row("trapezoid x", call("trapezoid"), (A, B[0]), 1e-5, node=False)
    yield Row("trapezoid x of the same shape", call("trapezoid"), (A, B), 1e-5, node=False)
    yield Row("trapezoid x that does not fit", call("trapezoid"), (A, X))
    yield Row("trapezoid integers", call("trapz"), (WHOLE,), 1e-5)
    yield Row("cumulative_trapezoid", call("cumulative_trapezoid"), (A,), 1e-5)
    many = RANDOM.standard_normal((3, 5)).astype(np.float32)
    times = np.array([1, 2, 1, 1, 3])
    weights = np.array([0.1, 0.2, 0.5, 1, 0.2], np.float32)
    for name in ("cov", "corrcoef"):
        yield Row(f"{name}", call(name), (many,), 1e-4)
        yield Row(f"{name} of a vector", call(name), (many[0],), 1e-4, node=False)
        yield Row(f"{name} of integers", call(name), (WHOLE,), 1e-4)
        yield Row(f"{name} of a cube", call(name), (many[None],))
    yield Row(
        "cov weighted",
        lambda lib, x, f, a: lib.cov(x, fweights=f, aweights=a.detach()),
        (many, times, weights),
        1e-4,
    )
    yield Row(
        "cov weighted, not corrected",
        lambda lib, x, a: lib.cov(x, correction=0, aweights=a),
        (many, weights),
        1e-4,
        gradient=False,
    )
    yield Row(
        "cov of weights that do not fit",
        lambda lib, x, f: lib.cov(x, fweights=f),
        (many, times[:2]),
    )
    yield Row("cov of fractional times", lambda lib, x, f: lib.cov(x, fweights=f), (many, weights))
    for p in (2, 1, INF):
        yield Row(f"dist {p}", call("dist", p=p), (A, B), 1e-5)
        yield Row(f"dist {p} of equals", call("dist", p=p), (A, A), 1e-5)
    yield Row("renorm", call("renorm", 2, 0, 1), (many,), 1e-5)
    yield Row("renorm 1 along 1", call("renorm", 1, 1, 0.5), (many,), 1e-5)
    yield Row("renorm of a vector", call("renorm", 2, 0, 1), (X,))
    yield Row("renorm of order 0", call("renorm", 0, 0, 1), (many,))


@table(further_rows())
def test_further_functions(row: Row) -> None:
    compare(row)
