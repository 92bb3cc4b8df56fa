"""`flambeau.special` against `torch.special`: values, dtypes, gradients, nodes, errors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np

from tests.conformance.operators import Row, compare, table

INF, NAN = float("inf"), float("nan")
ANY = np.array([-3.5, -1.25, -0.3, 0.2, 0.75, 2.5], np.float32)
POSITIVE = np.abs(ANY)
UNIT = np.array([0.05, 0.2, 0.4, 0.5, 0.8, 0.97], np.float32)
WIDE = np.array([-60, -25.5, -8, -1, -1e-5, 0, 1e-5, 0.5, 3.3, 12, 24.9, 25.1, 100, 1e4, 1e6])
SPECIAL = np.array([INF, -INF, NAN, 0.0])
WHOLE = np.array([1, 2, 3])

# Differentiable functions of one number, and where they are compared.
SMOOTH = {
    "digamma": POSITIVE, "entr": POSITIVE, "erf": ANY, "erfc": ANY, "erfcx": ANY, "erfinv": UNIT,
    "exp2": ANY, "expit": ANY, "expm1": ANY, "gammaln": POSITIVE, "i0": ANY, "i0e": ANY, "i1": ANY,
    "i1e": ANY, "log1p": POSITIVE, "log_ndtr": ANY, "logit": UNIT, "ndtr": ANY, "ndtri": UNIT,
    "psi": POSITIVE, "sinc": ANY,
}  # fmt: skip
WITHOUT_GRADIENT = [
    "bessel_j0", "bessel_j1", "modified_bessel_i0", "modified_bessel_i1", "modified_bessel_k0",
    "modified_bessel_k1", "scaled_modified_bessel_k0", "scaled_modified_bessel_k1",
    "spherical_bessel_j0",
]  # fmt: skip


def special(name: str, *args: Any, **options: Any) -> Any:
    return lambda lib, *tensors: getattr(lib.special, name)(*tensors, *args, **options)


def of_one() -> Iterator[Row]:
    for name, domain in SMOOTH.items():
        yield Row(name, special(name), (domain,), 3e-5)
        yield Row(f"{name} of doubles", special(name), (domain.astype(np.float64),), 1e-8)
        yield Row(f"{name} of integers", special(name), (WHOLE,), 3e-5)
    for name in WITHOUT_GRADIENT:
        # PyTorch's Bessel functions are good to 1e-8 between 5 and 10.
        yield Row(name, special(name), (WIDE,), 5e-8, gradient=False)
        yield Row(f"{name} of singles", special(name), (ANY,), 2e-5)
        yield Row(f"{name} of integers", special(name), (WHOLE,), 2e-5)
        yield Row(f"{name} at special values", special(name), (SPECIAL,), gradient=False)
    for name in ("entr", "erfcx", "log_ndtr", "ndtr", "ndtri", "i0e", "i1e"):
        yield Row(f"{name} at special values", special(name), (SPECIAL,), gradient=False)
    # The other three have no 16-bit form in PyTorch.
    for name in sorted(SMOOTH.keys() - {"erfcx", "log_ndtr", "ndtri"}):
        for dtype, tolerance in ((np.float16, 2e-3), (ml_dtypes.bfloat16, 1.6e-2)):
            row = Row(name, special(name), (UNIT.astype(dtype),), tolerance, gradient=False)
            yield row._replace(name=f"{name} of {np.dtype(dtype).name}")
    # Where erfc is about to become 0: in single precision from 9.19, in double from 26.54.
    edge = np.array([8.99, 9.01, 9.2, 9.3, 9.41, 9.43, 25.99, 26.01, 26.54, 26.6, 26.65])
    yield Row("erfcx of doubles before erfc is 0", special("erfcx"), (edge,), 1e-13)
    yield Row("erfcx before erfc is 0", special("erfcx"), (edge.astype(np.float32),), 2e-5)
    for name in ("erfcx", "log_ndtr", "ndtr"):
        yield Row(f"{name} far out", special(name), (WIDE,), 1e-8, gradient=False)


@table(of_one())
def test_functions_of_one_number(row: Row) -> None:
    compare(row)


X = np.array([0.5, 2.0, 0.0, 3.0], np.float32)
Y = np.array([1.5, 0.25, 2.0, -0.5], np.float32)


def of_two() -> Iterator[Row]:
    for name in ("gammainc", "gammaincc"):
        # PyTorch has no gradient in the first argument.
        yield Row(name, special(name), (POSITIVE, POSITIVE[::-1].copy()), 3e-5, gradient=False)
    for name in ("xlog1py", "xlogy"):
        yield Row(name, special(name), (X, np.abs(Y)), 3e-5)
        yield Row(f"{name} of NaN", special(name), (SPECIAL, SPECIAL[::-1].copy()), gradient=False)
    yield Row(
        "xlog1py of a number", lambda lib, x: lib.special.xlog1py(2.0, x), (X,), 3e-5, node=False
    )
    yield Row("zeta", special("zeta"), (X + 1.5, np.abs(Y)), 3e-5, gradient=False)
    poles = np.array([[0, 0], [0.5, -1], [1, 0], [2, 0], [2, -1], [2, -1.5], [1, 0.5]])
    yield Row("zeta at poles", special("zeta"), tuple(poles.T.copy()), gradient=False)
    number = lambda lib, x: lib.special.zeta(2.5, x)  # noqa: E731
    yield Row("zeta of a number", number, (X + 1,), 3e-5, node=False)
    yield Row("polygamma", lambda lib, x: lib.special.polygamma(2, x), (POSITIVE,), 1e-4)
    yield Row("multigammaln", special("multigammaln", 2), (POSITIVE + 1,), 3e-5)
    yield Row("logsumexp", special("logsumexp", 0), (ANY,))
    yield Row("softmax", special("softmax", 0), (ANY,))
    yield Row("log_softmax", special("log_softmax", 0), (ANY,))
    yield Row("round", special("round", decimals=1), (ANY,))


@table(of_two())
def test_functions_of_several(row: Row) -> None:
    compare(row)
