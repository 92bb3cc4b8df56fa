"""Rules for primitives that compute each element by itself."""

from __future__ import annotations

from typing import NoReturn

import numpy as np

from flambeau.core.interpreter.equation import Computation, Equation, Rule, Unknown


def ufunc(function: Computation, kinds: str = "biuf") -> Rule:
    """The rule of a function of NumPy for inputs of these kinds."""

    def rule(equation: Equation) -> Computation:
        if equation.kind not in kinds:
            raise Unknown(f"{equation.name} of {equation.inputs[0].dtype}")
        return function

    return rule


def wide(function: Computation) -> Rule:
    """The rule of a function that NumPy computes in single precision to a few units only."""

    def rule(equation: Equation) -> Computation:
        if equation.dtype != np.float32:
            return ufunc(function)(equation)
        return lambda *arrays: function(*arrays, dtype=np.float64).astype(np.float32)

    return rule


def special(name: str) -> Rule:
    """The rule of a function of `scipy.special`, which is imported when it is first called."""

    def call(*arrays: np.ndarray) -> np.ndarray:
        from scipy import special as functions

        return getattr(functions, name)(*arrays)

    return lambda equation: call


# erf(x) / x for |x| < 3.925, where erf is 1 in single precision: a polynomial in x² by another, of
# relative error 2e-9, fitted to `scipy.special.erf`. Its import takes longer than a first step.
_ERF_END = 3.925
_ERF_ABOVE = (
    -1.2829158304903324e-08, 4.614692500231223e-06, 0.00037696502824536866, 0.0038394704671547977,
    0.05424942499044513, 0.1851416811737351, 1.1283791691623033,
)  # fmt: skip
_ERF_BELOW = (
    6.245044386444314e-05, 0.00130197205423671, 0.01543247582780866, 0.11388046806956807,
    0.49741094968119876, 1.0,
)  # fmt: skip

# Elements that are computed at once, so that temporary arrays stay in the processor's cache.
_CHUNK = 4096


def error_function(equation: Equation) -> Computation:
    return _erf if equation.dtype == np.float32 else special("erf")(equation)


def _erf(x: np.ndarray) -> np.ndarray:
    flat = x.reshape(-1)
    found = np.empty_like(flat)
    for start in range(0, flat.size, _CHUNK):
        part = flat[start : start + _CHUNK].astype(np.float64).clip(-_ERF_END, _ERF_END)
        square = part * part
        part *= _polynomial(_ERF_ABOVE, square)
        found[start : start + _CHUNK] = part / _polynomial(_ERF_BELOW, square)
    return found.reshape(x.shape)


def _polynomial(coefficients: tuple[float, ...], x: np.ndarray) -> np.ndarray:
    found = coefficients[0] * x
    for each in coefficients[1:-1]:
        found += each
        found *= x
    return found + coefficients[-1]


def division(equation: Equation) -> Computation:
    return np.divide if equation.kind == "f" else _divide_integers


def _divide_integers(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Rounded towards zero; -1 for a division by zero."""
    none = right == 0
    safe = np.where(none, right.dtype.type(1), right)
    found = left // safe
    if left.dtype.kind == "i":
        found = found + ((found < 0) & (found * safe != left)).astype(left.dtype)
    return np.where(none, np.array(-1).astype(left.dtype), found)


def remainder(equation: Equation) -> Computation:
    return np.fmod if equation.kind == "f" else _integers_left


def _integers_left(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """With the sign of the dividend, which is left over by a division by zero."""
    none = right == 0
    return np.where(none, left, np.fmod(left, np.where(none, right.dtype.type(1), right)))


def sign(equation: Equation) -> Computation:
    if equation.kind == "f":
        # The sign of a zero stays.
        return lambda x: np.where(x == 0, x * x.dtype.type(0), np.sign(x))
    return np.sign


def negation(equation: Equation) -> Computation:
    return np.logical_not if equation.kind == "b" else np.invert


def logistic(equation: Equation) -> Computation:
    exp = wide(np.exp)(equation)
    one = equation.dtype.type(1)
    return lambda x: one / (one + exp(-x))


def reciprocal_root(equation: Equation) -> Computation:
    one = equation.dtype.type(1)
    return lambda x: one / np.sqrt(x)


def one_minus_square(equation: Equation) -> Computation:
    one = equation.dtype.type(1)
    return lambda x: one - x * x


def integer_power(equation: Equation) -> Computation:
    exponent = equation.params["y"]
    if exponent < 0 and equation.kind != "f":
        raise Unknown("integer_pow of integers to a negative exponent")
    one = equation.dtype.type(1)

    def power(x: np.ndarray) -> np.ndarray:
        # The same products in the same order as in JAX's program.
        found, square, left = None, x, abs(exponent)
        while left:
            if left & 1:
                found = square if found is None else found * square
            left >>= 1
            square = square * square if left else square
        found = np.ones(np.shape(x), x.dtype) if found is None else found
        return one / found if exponent < 0 else found

    return power


def power(equation: Equation) -> Computation:
    if any(each.dtype != equation.dtype for each in equation.inputs) or equation.kind != "f":
        raise Unknown("pow of integers")
    return np.power


def rounding(equation: Equation) -> Computation:
    if int(equation.params["rounding_method"]) == 1:
        return np.rint

    def away_from_zero(x: np.ndarray) -> np.ndarray:
        whole = np.trunc(x)
        return np.where(np.abs(x - whole) >= 0.5, whole + np.copysign(x.dtype.type(1), x), whole)

    return away_from_zero


def clamp(equation: Equation) -> Computation:
    return lambda least, x, most: np.minimum(np.maximum(x, least), most)


def selection(equation: Equation) -> Computation:
    if equation.kind == "b":
        return lambda which, no, yes: np.where(which, yes, no)
    last = len(equation.inputs) - 2

    def choose(which: np.ndarray, *cases: np.ndarray) -> np.ndarray:
        index = np.broadcast_to(np.clip(which, 0, last), cases[0].shape)
        return np.choose(index, cases)

    return choose if last < 30 else _refuse(equation)


def _refuse(equation: Equation) -> NoReturn:
    raise Unknown(equation.name)


def power_of_two(equation: Equation) -> Computation:
    # As XLA computes it, with an error that grows with the exponent.
    factor = equation.dtype.type(np.log(2))
    return lambda x: np.exp(x * factor)


def inverse_of_erf(equation: Equation) -> Computation:
    inverse = special("erfinv")(equation)
    return lambda x: np.copysign(inverse(x), x)


def shift(left: bool, filled: bool = False) -> Rule:
    """The rule of a shift.

    Args:
        left: Its direction.
        filled: Copies of the sign come in, where zeros do otherwise.
    """

    def rule(equation: Equation) -> Computation:
        dtype = equation.dtype
        width = 8 * dtype.itemsize
        # A shift by a negative number is one by a large one.
        inside, signed = np.dtype(f"u{dtype.itemsize}"), np.dtype(f"i{dtype.itemsize}")

        def shifted(x: np.ndarray, by: np.ndarray) -> np.ndarray:
            many = by.view(inside) >= width
            if filled:
                by = np.where(many, dtype.type(width - 1), by).view(signed)
                return np.right_shift(x.view(signed), by).view(dtype)
            by = np.where(many, dtype.type(0), by)
            if left:
                found = np.left_shift(x, by)
            else:
                found = np.right_shift(x.view(inside), by.view(inside)).view(dtype)
            return np.where(many, dtype.type(0), found)

        return lambda x, by: shifted(np.asarray(x), np.asarray(by))

    return rule


def conversion(equation: Equation) -> Computation:
    old, new = equation.inputs[0].dtype, equation.dtype
    if new.kind == "b":
        return lambda x: x != 0
    if old.kind != "f" or new.kind == "f":
        return lambda x: x.astype(new)
    limits = np.iinfo(new)
    least, most = old.type(limits.min), old.type(limits.max)

    def saturated(x: np.ndarray) -> np.ndarray:
        found = np.where((x > least) & (x < most), x, old.type(0)).astype(new)
        found = np.where(x >= most, new.type(limits.max), found)
        return np.where(x <= least, new.type(limits.min), found)

    return saturated


def bits(equation: Equation) -> Computation:
    old, new = equation.inputs[0].dtype, equation.dtype
    if old.itemsize != new.itemsize or "b" in (old.kind, new.kind):
        raise Unknown(equation.name)
    return lambda x: np.asarray(x).view(new)


def precision(equation: Equation) -> Computation:
    limits = np.finfo(equation.dtype)
    given = equation.params["exponent_bits"], equation.params["mantissa_bits"]
    if given != (limits.iexp, limits.nmant):
        raise Unknown(equation.name)
    return _as_it_is


def identity(equation: Equation) -> Computation:
    return _as_it_is


def _as_it_is(x: np.ndarray) -> np.ndarray:
    return x


def barrier(equation: Equation) -> Computation:
    return lambda *arrays: arrays


#: Rules by primitives.
RULES: dict[str, Rule] = {
    "abs": ufunc(np.abs),
    "acos": wide(np.arccos),
    "acosh": wide(np.arccosh),
    "add": ufunc(np.add, "iuf"),
    "add_any": ufunc(np.add, "iuf"),
    "and": ufunc(np.bitwise_and),
    "asin": wide(np.arcsin),
    "asinh": wide(np.arcsinh),
    "atan": wide(np.arctan),
    "atan2": wide(np.arctan2),
    "bitcast_convert_type": bits,
    "cbrt": ufunc(np.cbrt),
    "ceil": ufunc(np.ceil),
    "clamp": clamp,
    "convert_element_type": conversion,
    "copy": identity,
    "copy_p": identity,
    "cos": wide(np.cos),
    "div": division,
    "eq": ufunc(np.equal),
    "erf": error_function,
    "erf_inv": inverse_of_erf,
    "exp": wide(np.exp),
    "exp2": power_of_two,
    "expm1": wide(np.expm1),
    "floor": ufunc(np.floor),
    "ge": ufunc(np.greater_equal),
    "gt": ufunc(np.greater),
    "integer_pow": integer_power,
    "is_finite": ufunc(np.isfinite),
    "le": ufunc(np.less_equal),
    "log": wide(np.log),
    "log1p": wide(np.log1p),
    "logistic": logistic,
    "lt": ufunc(np.less),
    "le_to": ufunc(np.less_equal, "iu"),
    "lt_to": ufunc(np.less, "iu"),
    "max": ufunc(np.maximum),
    "min": ufunc(np.minimum),
    "mul": ufunc(np.multiply),
    "ne": ufunc(np.not_equal),
    "neg": ufunc(np.negative, "iuf"),
    "nextafter": ufunc(np.nextafter),
    "not": negation,
    "one_minus_square": one_minus_square,
    "optimization_barrier": barrier,
    "or": ufunc(np.bitwise_or),
    "pow": power,
    "reduce_precision": precision,
    "rem": remainder,
    "round": rounding,
    "rsqrt": reciprocal_root,
    "select_n": selection,
    "shift_left": shift(left=True),
    "shift_right_arithmetic": shift(left=False, filled=True),
    "shift_right_logical": shift(left=False),
    "sign": sign,
    "sin": wide(np.sin),
    "sqrt": ufunc(np.sqrt),
    "stop_gradient": identity,
    "square": ufunc(np.square),
    "sub": ufunc(np.subtract, "iuf"),
    "tan": wide(np.tan),
    "tanh": wide(np.tanh),
    "xor": ufunc(np.bitwise_xor),
}
