"""Operators that work element by element."""

from __future__ import annotations

import flambeau
from flambeau import special
from flambeau.nn import functional as F
from flambeau.ops.neural import activation, masking
from tests.autograd.gradient_rows.row import (
    MASK,
    POSITIVE,
    PROBABILITY,
    SCALAR,
    UNIT,
    A,
    B,
    C,
    U,
    Z,
    rows,
)


def methods(names, *inputs):
    """A row for each of the methods, without further arguments."""
    return [(name, getattr(flambeau.Tensor, name), *inputs) for name in names.split()]


def special_ones(names, *inputs):
    """A row for each of the special functions."""
    return [(name, getattr(special, name), *inputs) for name in names.split()]


def layers(names):
    """A row for each of the functions of one tensor."""
    return [(name, getattr(F, name), A) for name in names.split()]


ROWS = [
    *rows(
        "pointwise",
        *methods("abs exp exp2 expm1 sin cos tan atan sinh cosh tanh asinh sigmoid", A),
        *methods("ceil floor trunc round frac sign deg2rad rad2deg", A),
        *methods("sqrt rsqrt log log2 log10 log1p", POSITIVE),
        *methods("asin acos atanh", UNIT),
        ("acosh", lambda x: (x + 1).acosh(), POSITIVE),
        ("abs, complex", lambda z: z.abs(), Z),
        ("sgn", lambda z: z.sgn(), Z),
        ("exp, complex", lambda z: z.exp(), Z),
        ("frexp", lambda x: x.frexp().mantissa, A),
        ("ldexp", lambda x: flambeau.ldexp(x, flambeau.tensor([1, 0, 2])), A),
        ("nextafter", lambda x: flambeau.nextafter(x, B), A),
        twice="exp tanh sqrt sgn",
    ),
    *rows(
        "arithmetic",
        ("add", lambda x, y: x + y, A, B[0]),
        ("add_scaled", lambda x, y: flambeau.add(x, y, alpha=0.7), A, B),
        ("sub", lambda x, y: x - y, A, B[:, :1]),
        ("sub_scaled", lambda x, y: flambeau.sub(x, y, alpha=0.7), A, B),
        ("rsub", lambda x, y: flambeau.rsub(x, y), A, B),
        ("rsub_scaled", lambda x, y: flambeau.rsub(x, y, alpha=0.7), A, B),
        ("mul", lambda x, y: x * y, A, B[0]),
        ("mul, complex", lambda z, u: z * u, Z, U),
        ("mul, in place", lambda x, y: (x * 1).mul_(y).add_(x), A, B),
        ("div", lambda x, y: x / y, A, POSITIVE),
        ("div, complex", lambda z, u: z / u, Z, U),
        ("remainder", lambda x, y: x % y, A, POSITIVE),
        ("fmod", lambda x, y: x.fmod(y), A, POSITIVE),
        ("neg", lambda x: -x, A),
        ("square", lambda x: x.square(), A),
        ("reciprocal", lambda x: x.reciprocal(), POSITIVE),
        ("lerp", lambda x, y, w: flambeau.lerp(x, y, w), A, B, C),
        ("addcmul", lambda x, y, z: x.addcmul(y, z, value=0.5), A, B, C),
        ("addcdiv", lambda x, y, z: x.addcdiv(y, z, value=0.5), A, B, POSITIVE),
        twice="mul div lerp",
    ),
    *rows(
        "powers",
        ("power", lambda x, y: x**y, POSITIVE, B),
        ("power, complex", lambda z, u: z**u, Z, U),
        ("power_number", lambda x: x**1.7, POSITIVE),
        ("power_of_number", lambda x: 2.5**x, A),
        ("special_power", lambda x: x**3, A),
        twice="power special_power",
    ),
    *rows(
        "special",
        *methods("erf erfc i0 sinc", A),
        *methods("lgamma digamma", POSITIVE),
        *methods("erfinv", UNIT),
        *methods("logit", PROBABILITY),
        ("logit, clamped", lambda x: x.logit(0.2), PROBABILITY),
        ("polygamma", lambda x: flambeau.polygamma(1, x), POSITIVE),
        ("mvlgamma", lambda x: (x + 1).mvlgamma(2), POSITIVE),
        ("igamma", lambda x: flambeau.igamma(POSITIVE + 1, x), POSITIVE),
        ("igammac", lambda x: flambeau.igammac(POSITIVE + 1, x), POSITIVE),
        *methods("xlogy", A, POSITIVE),
        *methods("atan2", A, B),
        *methods("hypot", A, B),
        *methods("logaddexp", A, B),
        *methods("logaddexp2", A, B),
        twice="sinc digamma hypot",
    ),
    *rows(
        "special_functions",
        *special_ones("erfcx ndtr log_ndtr i0e i1 i1e", A),
        *special_ones("entr", POSITIVE),
        *special_ones("ndtri", PROBABILITY),
        *special_ones("xlog1py", A, POSITIVE),
        ("zeta", lambda x: special.zeta(2.5, x), POSITIVE),
    ),
    *rows(
        "selection",
        ("clamp", lambda x: x.clamp(-0.5, 0.6), A),
        ("clamp, tensors", lambda x, y, z: x.clamp(y, z + 1), A, B, C),
        ("clamp_min", lambda x: x.clamp_min(0.1), A),
        ("clamp_max", lambda x: x.clamp_max(0.1), A),
        *methods("copysign", A, B),
        *methods("fmax", A, C),
        *methods("fmin", A, C),
        *methods("maximum", A, C),
        *methods("minimum", A, C),
        ("nan_to_num", lambda x: x.nan_to_num(), A),
        ("where", lambda x, y: flambeau.where(MASK, x, y * y), A, B),
    ),
    *rows(
        "complex_numbers",
        ("complex", flambeau.complex, A, B),
        ("polar", flambeau.polar, POSITIVE, B),
        ("conjugate", lambda z: z.conj() * z, Z),
        ("conj_physical", lambda z: z.conj_physical(), Z),
        ("angle", lambda z: z.angle(), Z),
        twice="conjugate",
    ),
    *rows(
        "activation",
        *[
            (name, getattr(F, name), A)
            for name in ["gelu", "silu", "mish", "softplus", "logsigmoid"]
        ],
        *layers("gelu silu mish softplus logsigmoid relu relu6 hardsigmoid hardswish"),
        *layers("hardshrink softshrink softsign tanhshrink selu hardtanh"),
        ("gelu, tanh", lambda x: F.gelu(x, approximate="tanh"), A),
        ("celu", lambda x: F.celu(x, 0.7), A),
        ("elu", lambda x: F.elu(x, 0.7), A),
        ("leaky_relu", lambda x: F.leaky_relu(x, 0.2), A),
        ("prelu", F.prelu, A, B[0]),
        ("glu", lambda x: F.glu(x, 0), A),
        ("threshold", lambda x: F.threshold(x, 0.2, 3.0), A),
        ("rrelu_with_noise", lambda x: activation.rrelu_with_noise(x, PROBABILITY), A),
        (
            "gumbel_softmax",
            lambda x, t: activation.gumbel_softmax(x, POSITIVE, t, False, 1),
            A,
            SCALAR,
        ),
        twice="gelu softplus elu",
    ),
    *rows(
        "masking",
        ("keep_scaled", lambda x: masking.keep_scaled(x, MASK, 0.3), A),
        ("keep_self_normalizing", lambda x: masking.keep_self_normalizing(x, MASK, 0.3), A),
    ),
    *rows(
        "conversion",
        ("cast", lambda x: x.to(flambeau.complex128), A),
        ("clone", lambda x: x.clone(), A),
        ("copied", lambda x, y: (x * 1).copy_(y), A, B[0]),
    ),
    *rows("creation", ("filled", lambda x, y: (x * 1).fill_(y), A, SCALAR)),
]
