"""What is compared: an expression for each operator of the gradient tables, and its inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from tests.fuzz.number_inputs import (
    FLOATS,
    INTEGERS,
    Inputs,
    cancelling,
    empty,
    large,
    one,
    plain,
    rows_of,
    scalar,
    shaped,
    three,
    two,
)

REAL = FLOATS
ALL = (*FLOATS, "complex64", "complex128", *INTEGERS)
INEXACT = (*FLOATS, "complex64", "complex128")
NUMERIC = (*FLOATS, *INTEGERS)


class Case(NamedTuple):
    """An expression that both libraries compute.

    Attributes:
        operator: The operator in the tables of `tests.autograd.gradient_rows`.
        use: Which use of the operator it is.
        compute: Called as ``compute(lib, *tensors)``.
        inputs: Makes NumPy arrays from a dtype's name and random numbers.
        dtypes: The dtypes that it is compared in.
        slack: An absolute tolerance in epsilons of the dtype, where rounded terms cancel.
    """

    operator: str
    use: str
    compute: Callable[..., Any]
    inputs: Inputs
    dtypes: tuple[str, ...]
    slack: float = 0.0

    @property
    def name(self) -> str:
        """The operator and its use."""
        return f"{self.operator}, {self.use}" if self.use else self.operator


def find(lib: Any, path: str) -> Any:
    """The function under a dotted name, where ``F`` stands for ``nn.functional``."""
    for part in path.replace("F.", "nn.functional.").split("."):
        lib = getattr(lib, part)
    return lib


def call(path: str, *more: Any, **keywords: Any) -> Callable[..., Any]:
    """The call of a function of all the tensors and further arguments."""
    return lambda lib, *tensors: find(lib, path)(*tensors, *more, **keywords)


def method(name: str, *more: Any, **keywords: Any) -> Callable[..., Any]:
    """The call of a method of the first tensor."""
    return lambda lib, x, *tensors: getattr(x, name)(*tensors, *more, **keywords)


def of(module: str, names: str, inputs: Inputs, dtypes: tuple[str, ...], prefix: str = "") -> Any:
    """Cases for each of several functions without further arguments, of all sizes."""
    for name in names.split():
        case = Case(f"{module}.{name}", "", call(prefix + name), inputs, dtypes)
        few = tuple(each for each in ("float32", "bfloat16", "int64") if each in dtypes)
        alone, none = taken(inputs, 1), taken(inputs, slice(0))
        yield from (case, case._replace(use="0-d", inputs=alone, dtypes=few),
                    case._replace(use="empty", inputs=none, dtypes=few))  # fmt: skip


def taken(inputs: Inputs, place: Any) -> Inputs:
    """The elements at ``place`` of each input."""
    import numpy as np

    return lambda dtype, random: tuple(np.array(each[place]) for each in inputs(dtype, random))


def elementwise() -> Iterator[Case]:
    """Operators that work element by element."""
    yield from of(
        "pointwise",
        "abs exp exp2 expm1 sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh sqrt rsqrt "
        "log log2 log10 log1p sigmoid sgn",
        one,
        ALL,
    )
    yield from of("pointwise", "ceil floor trunc round frac sign deg2rad rad2deg", one, NUMERIC)
    yield Case("pointwise.round", "decimals", call("round", decimals=2), one, REAL)
    yield Case("pointwise.frexp", "", lambda lib, x: tuple(lib.frexp(x)), one, REAL)
    yield Case(
        "pointwise.ldexp",
        "",
        lambda lib, x: lib.ldexp(x[:, None], lib.tensor([0, 1, -1, 10, -20])),
        one,
        REAL,
    )
    yield from of("pointwise", "nextafter", two, ("float32", "float64"))
    yield from of("arithmetic", "add sub mul", two, ALL)
    yield Case("arithmetic.mul", "in place", lambda lib, x, y: (x * 1).mul_(y), two, REAL)
    for name in ("add", "sub", "rsub"):
        case = call(name, alpha=2)
        yield Case(f"arithmetic.{name}_scaled", "", case, two, (*FLOATS, "complex64", "int64"))
    yield Case("arithmetic.rsub", "", call("rsub"), two, ALL)
    yield Case("arithmetic.div", "", call("div"), two, ALL)
    for mode in ("floor", "trunc"):
        yield Case("arithmetic.div", mode, call("div", rounding_mode=mode), two, REAL)
    for number in (0.0, -0.0, 3.0, float("inf"), float("nan")):
        for name in ("add", "mul", "div", "remainder", "fmod", "sub", "rsub"):
            yield Case(f"arithmetic.{name}", f"by {number}", call(name, number), one, REAL)
    yield from of("arithmetic", "remainder fmod floor_divide", two, REAL)
    yield from of("arithmetic", "neg square reciprocal", one, ALL)
    yield from of("arithmetic", "lerp addcmul addcdiv", three, INEXACT)
    for name in ("addcmul", "addcdiv"):
        yield Case(f"arithmetic.{name}", "value", call(name, value=0.1), three, REAL)
    yield Case("arithmetic.lerp", "number", call("lerp", 0.3), two, REAL)

    yield Case("powers.power", "", call("pow"), two, (*FLOATS, "complex64", "int64"))
    for number in (0, 0.0, 1, 2, 3, -1, -2, 0.5, -0.5, 1.5, 0.1, float("inf"), float("nan")):
        kind = "special_power" if number in (0.5, -0.5, 2, 3, -1, -2, 1, 0) else "power_number"
        yield Case(f"powers.{kind}", f"{number!r}", call("pow", number), one, INEXACT)
    for number in (0.0, 1.0, 2.0, -1.0, 0.5, float("inf"), float("nan")):
        case = lambda lib, x, number=number: lib.pow(number, x)  # noqa: E731
        yield Case("powers.power_of_number", f"{number!r}", case, one, REAL)

    yield from of("special", "erf erfc erfinv lgamma digamma i0 sinc logit", one, REAL)
    yield Case("special.sinc", "complex", call("sinc"), one, ("complex64",))
    yield Case("special.logit", "clamped", call("logit", 0.1), one, REAL)
    for order in (0, 1, 2):
        case = lambda lib, x, order=order: lib.polygamma(order, x)  # noqa: E731
        yield Case("special.polygamma", f"{order}", case, one, REAL)
    yield Case("special.mvlgamma", "", lambda lib, x: lib.mvlgamma(x.abs() + 1.5, 2), one, REAL)
    for name in ("igamma", "igammac"):
        case = lambda lib, x, y, name=name: find(lib, name)(x.detach(), y)  # noqa: E731
        yield Case(f"special.{name}", "", case, two, ("float32", "float64"))
    yield from of("special", "xlogy atan2 hypot logaddexp logaddexp2", two, REAL)
    yield Case("special.xlogy", "by 0.0", lambda lib, x: lib.xlogy(0.0, x), one, REAL)
    yield Case("special.xlogy", "of 0.0", call("xlogy", 0.0), one, REAL)
    yield Case("special.logaddexp", "complex", call("logaddexp"), two, ("complex64",))

    names = "erfcx ndtr log_ndtr i0e i1 i1e entr ndtri"
    yield from of("special_functions", names, one, ("float32", "float64"), "special.")
    yield Case("special_functions.xlog1py", "", call("special.xlog1py"), two, REAL)
    case = lambda lib, x: lib.special.zeta(2.5, x)  # noqa: E731
    yield Case("special_functions.zeta", "", case, one, ("float32", "float64"))

    for low, high in ((-0.5, 0.6), (0.0, 1.0), (1.0, 0.0)):
        yield Case("selection.clamp", f"{low}, {high}", call("clamp", low, high), one, REAL)
    yield Case("selection.clamp", "tensors", call("clamp"), three, REAL)
    for name in ("clamp_min", "clamp_max"):
        yield Case(f"selection.{name}", "0", call(name, 0.0), one, REAL)
        yield Case(f"selection.{name}", "tensor", call(name), two, REAL)
    yield from of("selection", "copysign fmax fmin maximum minimum heaviside", two, REAL)
    for number in (0.0, -0.0, -1.0):
        yield Case("selection.copysign", f"{number}", call("copysign", number), one, REAL)
    for name in ("fmax", "fmin", "maximum", "minimum"):
        yield Case(f"selection.{name}", "integers", call(name), two, INTEGERS)
    yield from of("selection", "nan_to_num", one, INEXACT)
    yield Case("selection.where", "", lambda lib, x, y: lib.where(x > y, x, y), two, REAL)
    chosen = lambda lib, x: lib.where(x > 0, x.sqrt(), x * 0)  # noqa: E731
    yield Case("selection.where", "root", chosen, one, REAL)
    rooted = lambda lib, x: lib.maximum(x, lib.zeros_like(x)).sqrt()  # noqa: E731
    yield Case("selection.maximum", "root", rooted, one, REAL)

    yield from of("complex_numbers", "complex polar", two, ("float32", "float64"))
    yield Case("complex_numbers.conjugate", "", lambda lib, z: z.conj() * z, one, ("complex64",))
    yield from of("complex_numbers", "conj_physical", one, ALL)
    yield from of("complex_numbers", "angle", one, (*FLOATS, "complex64"))

    names = "gelu silu mish softplus logsigmoid relu relu6 hardsigmoid hardswish hardshrink "
    names += "softshrink softsign tanhshrink selu celu elu hardtanh leaky_relu"
    yield from of("activation", names, one, REAL, "F.")
    yield Case("activation.gelu", "tanh", call("F.gelu", approximate="tanh"), one, REAL)
    yield Case("activation.celu", "0.7", call("F.celu", 0.7), one, REAL)
    yield Case("activation.elu", "0.7", call("F.elu", 0.7), one, REAL)
    yield Case("activation.hardshrink", "0", call("F.hardshrink", 0.0), one, REAL)
    yield Case("activation.softshrink", "0", call("F.softshrink", 0.0), one, REAL)
    yield Case("activation.leaky_relu", "0", call("F.leaky_relu", 0.0), one, REAL)
    yield Case("activation.leaky_relu", "0.2", call("F.leaky_relu", 0.2), one, REAL)
    yield Case("activation.softplus", "2, 5", call("F.softplus", 2, 5), one, REAL)
    yield Case("activation.threshold", "", call("F.threshold", 0.2, 3.0), one, REAL)
    prelu = lambda lib, x, w: lib.nn.functional.prelu(x.reshape(7, 1, 49), w[:1])  # noqa: E731
    yield Case("activation.prelu", "", prelu, lambda d, r: (two(d, r)[0][:343], one(d, r)[0][5:]),
               REAL)  # fmt: skip
    yield Case("activation.prelu", "0", call("F.prelu"), lambda d, r: (one(d, r)[0], one(d, r)[0][:1]), REAL)  # fmt: skip  # noqa: E501
    yield Case("activation.glu", "", call("F.glu", 0), lambda d, r: (_stacked(two(d, r)),), REAL)
    for to in ("float16", "bfloat16"):
        # To its own dtype nothing is converted.
        dtypes = tuple(each for each in REAL if each != to)
        cast = lambda lib, x, to=to: x.to(getattr(lib, to))  # noqa: E731
        yield Case("conversion.cast", to, cast, one, dtypes)
    yield Case("conversion.cast", "complex", lambda lib, x: x.to(lib.complex64), one, REAL)
    yield Case("conversion.clone", "", method("clone"), one, ALL)


def _stacked(pair: Any) -> Any:
    import numpy as np

    return np.stack(pair)


def reductions() -> Iterator[Case]:
    """Operators that reduce, accumulate or sort."""
    table = rows_of(4)
    for name in ("sum", "mean", "nansum", "nanmean"):
        yield Case(f"reduction.{name}", "", method(name, 1), table, INEXACT)
        yield Case(f"reduction.{name}", "cancelling", method(name, 1), cancelling, REAL)
        yield Case(f"reduction.{name}", "all", method(name), cancelling, REAL)
        yield Case(f"reduction.{name}", "empty", method(name), empty(0), REAL)
        yield Case(f"reduction.{name}", "0-d", method(name), scalar(2.5), REAL)
    yield Case("reduction.sum", "integers", method("sum", 1), table, INTEGERS)
    yield Case("reduction.prod", "", method("prod", 1), table, INEXACT)
    yield Case("reduction.prod", "integers", method("prod", 1), table, INTEGERS)
    yield Case("reduction.prod", "all", method("prod"), plain((1, 7)), REAL)
    yield Case("reduction.prod", "empty", method("prod"), empty(0), REAL)
    yield Case("reduction.prod", "large", method("prod", 1), large((3, 4)), REAL)
    for name in ("var", "std", "var_mean", "std_mean"):
        yield Case(f"reduction.{name}", "", call(name, 1), table, REAL)
        yield Case(f"reduction.{name}", "large", call(name, 1), large((3, 4)), REAL)
        yield Case(f"reduction.{name}", "biased", call(name, 1, correction=0), table, REAL)
        yield Case(f"reduction.{name}", "of one", call(name, 1), shaped((5, 1), share=0.4), REAL)
    yield Case("reduction.std", "of equals", lambda lib, x: (x * 0 + 2).std(1), plain((2, 3)), REAL)

    for name in ("amax", "amin"):
        yield Case(f"extremum.{name}", "", method(name, 1), table, NUMERIC)
    yield Case("extremum.aminmax", "", lambda lib, x: tuple(x.aminmax(dim=1)), table, REAL)
    for name in ("max", "min"):
        both = lambda lib, x, name=name: tuple(getattr(x, name)(1))  # noqa: E731
        yield Case(f"extremum.{name}_along", "", both, table, NUMERIC)
        yield Case(f"extremum.{name}_of_all", "", method(name), plain((3, 4)), REAL)
        yield Case(f"extremum.{name}_of_all", "edges", method(name), shaped((3, 4)), REAL)
    for name in ("median", "nanmedian"):
        values = lambda lib, x, name=name: getattr(x, name)(1).values  # noqa: E731
        yield Case(f"extremum.{name}_dim", "", values, table, REAL)
        yield Case(f"extremum.{name}", "", method(name), plain((3, 4)), REAL)
        yield Case(f"extremum.{name}", "edges", method(name), shaped((3, 4), share=0.4), REAL)
        yield Case(f"extremum.{name}", "empty", method(name), empty(0), REAL)
    yield Case("extremum.mode", "", lambda lib, x: x.mode(1).values, plain((8, 4)), REAL)

    for name in ("cumsum", "cumprod", "logcumsumexp"):
        yield Case(f"cumulative.{name}", "", method(name, 1), table, INEXACT)
        yield Case(f"cumulative.{name}", "cancelling", method(name, 1), cancelling, REAL)
    for name in ("cummax", "cummin"):
        yield Case(f"cumulative.{name}", "", lambda lib, x, name=name: getattr(x, name)(1).values,
                   table, REAL)  # fmt: skip
    yield Case("differences.diff", "", method("diff"), table, REAL)
    yield Case("differences.trapezoid", "", call("trapezoid"), table, REAL)
    yield Case("differences.cumulative_trapezoid", "", call("cumulative_trapezoid"), table, REAL)

    orders = [2.0, 1.0, 3.0, 0.5, 0.0, float("inf"), float("-inf"), -1.0]
    for order in orders:
        norm = call("linalg.vector_norm", order, 1)
        yield Case("norms.vector_norm", f"{order}", norm, table, REAL)
        distance = lambda lib, x, order=order: lib.dist(x[0], x[1], order)  # noqa: E731
        yield Case("norms.dist", f"{order}", distance, plain((2, 3)), REAL)
        yield Case("norms.dist", f"{order}, large", distance, large((2, 3)), REAL)
        equal = lambda lib, x, order=order: lib.dist(x[0], x[0] * 1, order)  # noqa: E731
        yield Case("norms.dist", f"{order}, equal", equal, plain((2, 3)), REAL)
        if order > 0 and order < float("inf"):
            yield Case("norms.renorm", f"{order}", call("renorm", order, 0, 1.5), table, REAL)
            yield Case("norms.renorm", f"{order}, large", call("renorm", order, 0, 1.5),
                       large((3, 4)), REAL)  # fmt: skip
    yield Case("norms.vector_norm", "of all", method("norm"), shaped((3, 4)), REAL)
    yield Case("norms.vector_norm", "large", method("norm", dim=1), large((3, 4)), REAL)
    yield Case("norms.vector_norm", "complex", method("norm", dim=1), plain((3, 4)), ("complex64",))

    for name in ("softmax", "log_softmax", "logsumexp"):
        yield Case(f"softmax.{name}", "", method(name, 1), table, REAL)
        yield Case(f"softmax.{name}", "cancelling", method(name, 1), cancelling, REAL)
        yield Case(f"softmax.{name}", "0-d", method(name, 0), scalar(2.5), REAL)
    yield Case("softmax.logsumexp", "empty", method("logsumexp", 0), empty(0), REAL)
    yield Case("sorting.sort", "", lambda lib, x: x.sort(dim=1, stable=True).values, table, NUMERIC)
    down = lambda lib, x: x.sort(dim=1, descending=True, stable=True).values  # noqa: E731
    yield Case("sorting.sort", "descending", down, table, REAL)
    yield Case("sorting.msort", "", method("msort"), shaped((4, 5), share=0.3), REAL)
    yield Case("sorting.topk", "", lambda lib, x: x.topk(2).values, table, REAL)
    yield Case("sorting.kthvalue", "", lambda lib, x: x.kthvalue(2).values, table, REAL)
    for kind in ("linear", "lower", "nearest", "midpoint", "higher"):
        for name in ("quantile", "nanquantile"):
            case = method(name, 0.3, dim=1, interpolation=kind)
            yield Case("quantile.quantile", f"{name} {kind}", case, table, ("float32", "float64"))
    yield Case("quantile.quantile", "equals",
               lambda lib, x: x.quantile(lib.tensor([0.0, 0.25, 0.5, 1.0], dtype=x.dtype), dim=1),
               rows_of(5), ("float32", "float64"))  # fmt: skip
    yield Case("statistics.cov", "", method("cov"), plain((2, 4)), REAL)
    yield Case("statistics.corrcoef", "", method("corrcoef"), plain((2, 4)), REAL)

    pairwise = rows_of(3, 12)
    both = lambda dtype, random: (*pairwise(dtype, random), *pairwise(dtype, random))  # noqa: E731
    for order in (1.0, 2.0, 3.0, 0.5, float("inf")):
        yield Case("distance.cdist", f"{order}", call("cdist", order), both, ("float32", "float64"))
        case = call("F.pairwise_distance", order)
        yield Case("distance.pairwise_distance", f"{order}", case, both, REAL)
    yield Case("distance.pairwise_distance", "large", call("F.pairwise_distance"),
               large((3, 4), (3, 4)), REAL)  # fmt: skip
    yield Case("distance.pdist", "", call("F.pdist"), pairwise, ("float32", "float64"))
    yield Case("distance.cosine_similarity", "", call("cosine_similarity"), both, REAL)
    yield Case("distance.cosine_similarity", "large", call("cosine_similarity"),
               large((3, 4), (3, 4)), REAL)  # fmt: skip
